"""One run of a tiny experiment, for the tests of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import levelfield as lf
from levelfield.protocol import resolve
from levelfield.train import RunJob


def job(tiny: dict[str, Any], folder: Path, method: dict[str, Any] | None = None, **changes: Any) -> RunJob:
    chosen = method or {"name": "triplet", "set": {"margin": 0.2}}
    experiment = lf.Experiment.build(**{**tiny, "methods": [chosen], **changes})
    resolved = resolve(experiment)
    method_ = resolved.methods[0]
    values = {name: value for name, value in method_.defaults().items() if name not in method_.fixed}
    spec = resolved.run_spec(method_, values, fold=0, seed=7)
    return RunJob(spec, resolved.resources, folder)


def files(folder: Path) -> dict[str, bytes]:
    names = ("epochs.jsonl", "result.json", "best.safetensors")
    return {name: (folder / name).read_bytes() for name in names}
