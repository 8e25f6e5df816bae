"""The whole job against a script of pytorch-metric-learning and Optuna: search, reruns, test scores, report.

    python -m benchmarks.speed.job [--quick] [--workers 2]

Both search the same ranges with Optuna's TPE, train the same number of linear heads with the same steps on
the same cached features, validate as often, and score reruns on the test classes. levelfield also writes its
records, verdicts and report. Each side is a process of its own, with one thread per worker; start-up counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
FULL = {
    "methods": ["contrastive", "triplet", "multi_similarity", "arcface"],
    "classes": 200,
    "folds": 4,
    "trials": 5,
    "reruns": 3,
    "epochs": 12,
    "iterations": 50,
    "evaluate_every": 3,
}
QUICK = FULL | {
    "methods": ["contrastive", "multi_similarity"],
    "classes": 80,
    "trials": 3,
    "reruns": 1,
    "iterations": 25,
}


@dataclass(frozen=True)
class Cost:
    """Seconds of one side: of all its processors together, and by the clock."""

    cpu: float
    wall: float


def title(job: dict[str, object]) -> str:
    """Return the amount of work in words."""
    methods = job["methods"]
    assert isinstance(methods, list)
    steps = int(str(job["epochs"])) * int(str(job["iterations"]))
    return (
        f"{len(methods)} methods x {job['trials']} trials x {job['folds']} folds + {job['reruns']} reruns, "
        f"{steps} steps a run"
    )


def experiment(job: dict[str, object], workers: int) -> dict[str, object]:
    """Return the experiment file of levelfield's side."""
    training = {
        "max_epochs": job["epochs"],
        "iterations_per_epoch": job["iterations"],
        "evaluate_every": job["evaluate_every"],
        "patience": None,
        "metric": "map_at_r",
    }
    return {
        "name": "whole-job",
        "preset": "laptop",
        "plugins": [str(ROOT / "benchmarks" / "speed" / "vectors.py")],
        "dataset": {"name": "class_vectors", "classes": job["classes"]},
        "split": {"name": "class_disjoint", "folds": job["folds"], "test_fraction": 0.5},
        "trunk": {"name": "pixels", "weights": "none", "mode": "frozen"},
        "transform": {"name": "none"},
        "training": training,
        "methods": job["methods"],
        "search": {"trials": job["trials"], "sampler": "tpe"},
        "confirm": {"reruns": job["reruns"], "gallery": 0},
        "engine": {"workers": workers if workers > 1 else 0, "threads": 1, "device": "cpu"},
    }


def cost_of(command: list[str], directory: Path) -> Cost:
    """Run a command to its end and return what it cost."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "LEVELFIELD_CACHE": str(directory / "cache"),
    }
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    wall, after = time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{command[2]} failed: {(done.stderr or done.stdout).strip()[-800:]}")
    return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall)


def measure(job: dict[str, object], *, workers: int) -> tuple[Cost, Cost]:
    """Return the cost of levelfield and of the script."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        file = directory / "whole-job.yaml"
        file.write_text(yaml.safe_dump(experiment(job, workers)))
        ours = [
            sys.executable,
            "-m",
            "levelfield",
            "run",
            str(file),
            "--out",
            str(directory / "out"),
            "--quiet",
        ]
        theirs = [sys.executable, "-m", "benchmarks.speed.job_peer"]
        theirs += [json.dumps({**job, "workers": workers}), str(directory)]
        return cost_of(ours, directory), cost_of(theirs, directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small size, for a check in a minute")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    job = QUICK if options.quick else FULL
    print(f"{title(job)}, {options.workers} workers", flush=True)
    ours, theirs = measure(job, workers=options.workers)
    print(json.dumps({"levelfield": asdict(ours), "pytorch-metric-learning + Optuna": asdict(theirs)}))
    cpu, wall = theirs.cpu / ours.cpu, theirs.wall / ours.wall
    print(f"levelfield is {cpu:.2f} times as fast in CPU time, {wall:.2f} times by the clock")


if __name__ == "__main__":
    main()
