"""Attack the records of an experiment: read thousands of hostile variants of its files.

    python -m tools.attacks.records --count 10000 --progress build/records.json

One file of a finished experiment is replaced by a hostile variant. Then everything that reads a stranger's
records is tried: the comparison, `verify`, and the experiment that `reproduce` would run. Each must
end in a result or in one line within 10 s, and no code that a record names may run. An interrupted attack
goes on where it was when the same command is given again.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import levelfield as lf
from levelfield.analysis import read_comparison, verify
from levelfield.protocol import recorded_experiment
from levelfield.reports import write_report
from tools.attacks.limits import Score
from tools.attacks.model_cards import set_trap
from tools.attacks.mutations import variants

PLUGIN = Path(__file__).parents[2] / "tests" / "helpers" / "toy_plugin.py"
EXPERIMENT = {
    "name": "tiny",
    "plugins": [str(PLUGIN)],
    "dataset": {"name": "toy_images"},
    "split": {"name": "class_disjoint", "folds": 2},
    "trunk": {"name": "conv4", "width": 4, "in_channels": 1},
    "head": {"size": 8},
    "batch": {"size": 12, "samples_per_class": 3, "samples_per_class_classification": 2},
    "training": {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": 1},
    "methods": ["contrastive", "normalized_softmax"],
    "search": {"trials": 2, "sampler": "random"},
    "confirm": {"reruns": 2, "gallery": 0},
    "engine": {"workers": 0},
}


def main() -> int:
    """Run the attacks and print the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", action="store_true", help="Also write the report, which takes longer.")
    parser.add_argument("--progress", type=Path, help="File to go on from after an interruption.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "tiny"
        lf.run(EXPERIMENT, root)
        score = attack_records(
            root, arguments.count, arguments.seed, report=arguments.report, progress=arguments.progress
        )
        return score.show()


def attack_records(
    root: Path, count: int, seed: int, *, report: bool = False, progress: Path | None = None
) -> Score:
    """Attack ``count`` times, each time one file of the experiment in ``root``."""
    trap, marker = set_trap(root.parent / "stranger")
    files = [file for pattern in ("*.json", "*.jsonl") for file in sorted(root.rglob(pattern))]
    score = Score.resume(progress)
    for number in range(score.done, count):
        file = random.Random(f"{seed} {number}").choice(files)  # the same one after an interruption
        before = file.read_bytes()
        file.write_bytes(hostile(file, before, seed=seed + number, trap=trap))
        try:
            score.attack(f"{file.relative_to(root)} ({seed + number})", read_everything(root, report=report))
        finally:
            file.write_bytes(before)
        if progress is not None and (score.done % 50 == 0 or score.done == count):
            score.save(progress)
    if marker.exists():
        score.bugs.append("code that a record named was run")
    return score


def hostile(file: Path, content: bytes, *, seed: int, trap: str) -> bytes:
    """Return a hostile variant of a JSON file, or of one line of a file with lines."""
    if file.suffix == ".json":
        return next(variants(json.loads(content), 1, seed=seed, poison=(trap,)))
    lines = content.splitlines()
    number = random.Random(seed).randrange(len(lines))
    lines[number] = next(variants(json.loads(lines[number]), 1, seed=seed, poison=(trap,)))
    return b"\n".join(lines) + b"\n"


def read_everything(root: Path, *, report: bool) -> Callable[[], None]:
    """Return the attack: every reader of records."""

    def read() -> None:
        verify(root)
        read_comparison(root)
        recorded_experiment(root)
        if report:
            write_report(root)

    return read


if __name__ == "__main__":
    raise SystemExit(main())
