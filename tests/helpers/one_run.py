"""One run of a tiny experiment, for the tests of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import levelfield as lf
from levelfield.protocol import resolve_experiment
from levelfield.train import RunJob


def job(
    tiny: dict[str, Any], directory: Path, method: dict[str, Any] | None = None, **changes: Any
) -> RunJob:
    chosen = method or {"name": "triplet", "set": {"margin": 0.2}}
    experiment = lf.Experiment.build(**{**tiny, "methods": [chosen], **changes})
    resolved = resolve_experiment(experiment)
    method_ = resolved.methods[0]
    values = {name: value for name, value in method_.defaults().items() if name not in method_.fixed}
    spec = resolved.run_spec(method_, values, fold=0, seed=7)
    return RunJob(spec, resolved.resources, directory)


def files(directory: Path) -> dict[str, bytes]:
    names = ("epochs.jsonl", "result.json", "best.safetensors")
    return {name: (directory / name).read_bytes() for name in names}
