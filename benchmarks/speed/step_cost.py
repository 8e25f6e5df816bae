"""Time of a training step of each method of the reality check, on made-up features.

    python -m benchmarks.speed.step_cost [-o results/studies/step-cost.json] [--steps N] [--rounds R]

Every method of ``preset: reality-check-2026`` trains a head with its paper's values on random features of the
shape of CUB's training half, with one thread. Methods take turns, so that other work on the machine affects
all of them. A figure is the median processor time of a step, from one batch to the next, in one round. The
page of the reality check shows the best round of each method, as a ratio (``make reality-check``).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

import levelfield as lf
from benchmarks.speed.head_training import SAMPLES, WIDTH, seconds_of_steps
from levelfield.models._feature_file import FeatureShape
from levelfield.models.features import FeatureStore
from levelfield.protocol import resolve_experiment
from levelfield.records import RunSpec

WARM_UP = 20  # steps left out


def specs(steps: int) -> dict[str, RunSpec]:
    """Return the spec of a run of each method, with the values of its paper."""
    experiment = lf.Experiment.build(
        name="step-cost",
        preset="reality-check-2026",
        dataset={"name": "glyphs"},
        trunk={"name": "mlp", "mode": "frozen", "width": WIDTH},
        transform={"name": "none"},
        training={"iterations_per_epoch": steps, "max_epochs": 1, "evaluate_every": 1},
        hyperparameters="defaults",
    )
    resolved = resolve_experiment(experiment)
    return {m.name: resolved.run_spec(m, m.defaults(), fold=0, seed=0) for m in resolved.methods}


def main() -> None:
    """Read the command line, measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "features.f32"
        torch.rand(SAMPLES, WIDTH, generator=torch.Generator().manual_seed(0)).numpy().tofile(file)
        store = FeatureStore(file, FeatureShape(views=1, rows=SAMPLES, item=(WIDTH,)))
        seconds: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for method, spec in specs(options.steps).items():
                found = seconds_of_steps(spec, store)[WARM_UP:]
                seconds.setdefault(method, []).append(round(float(np.median(found)), 7))
    for method, values in sorted(seconds.items(), key=lambda item: np.median(item[1])):
        print(f"{method:25} {1e3 * np.median(values):6.2f} ms, rounds {[round(1e3 * v, 2) for v in values]}")
    if options.out is not None:
        busy = "busy" if os.getloadavg()[0] > (os.cpu_count() or 1) else "quiet"
        machine = f"{os.cpu_count()} CPU cores, no GPU, {busy}; one thread, processor time"
        record = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine, "steps": options.steps}
        options.out.write_text(json.dumps(record | {"seconds": seconds}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
