"""Kill workers and the driver of an experiment at random moments; the records must not change.

    python -m benchmarks.robustness.kill_engine --kills 100

One experiment of several methods runs undisturbed, and once more with SIGKILL for a worker or for the driver,
which is then started again. At the end every record is compared byte by byte. The script also checks that no
finished run was computed again.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from tests.helpers.records_snapshot import differences, records_of

TESTS = Path(__file__).parents[2] / "tests"
METHODS = ["contrastive", "triplet", "normalized_softmax", "ntxent", "multi_similarity", "arcface"]
WORKERS = 2
LAST_KILL = 0.98  # of the progress, so that something is left to kill
WORKER_KILLS = 2  # per driver; a run that dies three times is recorded as failed


def experiment(methods: int, trials: int) -> dict[str, object]:
    """Runs of about a second, with a search that depends on each of them."""
    return {
        "name": "killed",
        "plugins": [str(TESTS / "helpers" / "toy_plugin.py")],
        "dataset": {"name": "toy_images"},
        "split": {"name": "class_disjoint", "folds": 2},
        "trunk": {"name": "conv4", "width": 4, "in_channels": 1},
        "head": {"size": 8},
        "batch": {"size": 12, "samples_per_class": 3, "samples_per_class_classification": 2},
        "optimizer": {"name": "adam", "lr": 3e-3},
        "training": {"iterations_per_epoch": 10, "max_epochs": 6, "evaluate_every": 1, "patience": None},
        "methods": METHODS[:methods],
        "search": {"trials": trials, "sampler": "tpe"},
        "confirm": {"reruns": 2},
        "engine": {"workers": WORKERS},
    }


def command(file: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "levelfield", "run", str(file), "--out", str(out), "--quiet"]


def worker_processes(driver: int) -> list[int]:
    """Return the worker processes of a driver."""
    try:
        children = Path(f"/proc/{driver}/task/{driver}/children").read_text().split()
        return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    except OSError:  # it has just ended
        return []


def finished_runs(out: Path) -> dict[str, int]:
    """Return the time at which each finished run ended."""
    return {file.parent.name: file.stat().st_mtime_ns for file in out.glob("runs/*/result.json")}


class Watch:
    """Checks that a finished run is never computed again."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def look(self, out: Path) -> None:
        now = finished_runs(out)
        again = [run for run, when in self.seen.items() if now.get(run) != when]
        if again:
            sys.exit(f"lost or computed again: {', '.join(again)}")
        self.seen = now


def progress_of(out: Path) -> int:
    """Return the number of finished runs and scored reruns."""
    return len(finished_runs(out)) + len(list(out.glob("confirmations/*/rerun-*.json")))


def run_with_kills(file: Path, out: Path, moments: list[float], chance: random.Random) -> dict[str, int]:
    """Run the experiment with a kill at each moment; return the number of kills of the driver and of workers.

    A moment is a progress of the experiment; the kill comes a little later. Many kills come while a driver or
    its workers are still starting.
    """
    hits = {"driver": 0, "worker": 0}
    watch = Watch()
    waiting = sorted(moments, reverse=True)
    while True:
        driver = subprocess.Popen(command(file, out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        left = chance.randint(0, WORKER_KILLS)
        while driver.poll() is None and waiting:
            if progress_of(out) < waiting[-1]:
                time.sleep(0.02)
                continue
            time.sleep(chance.uniform(0.0, 3.0))
            watch.look(out)
            victims = worker_processes(driver.pid)
            if left and victims:
                os.kill(chance.choice(victims), signal.SIGKILL)
                hits["worker"] += 1
                left -= 1
            elif not left and driver.poll() is None:
                driver.kill()
                hits["driver"] += 1
            else:
                continue  # no process to kill yet
            waiting.pop()
        _, said = driver.communicate()
        watch.look(out)
        if driver.returncode == 0:
            return hits  # a kill at the very end may have come too late; the output shows it
        if driver.returncode != -signal.SIGKILL:
            sys.exit(f"the driver ended with {driver.returncode}: {said.decode()[-500:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--methods", type=int, default=len(METHODS))
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "killed.yaml"
        file.write_text(yaml.safe_dump(experiment(options.methods, options.trials)))
        subprocess.run(command(file, folder / "undisturbed"), check=True, capture_output=True)
        end, chance = progress_of(folder / "undisturbed"), random.Random(options.seed)
        moments = [chance.uniform(0, LAST_KILL * end) for _ in range(options.kills)]
        hits = run_with_kills(file, folder / "disturbed", moments, chance)
        expected, found = (records_of(folder / each) for each in ("undisturbed", "disturbed"))
        different = differences(without_ledger(expected), without_ledger(found))
        left_over = [file.name for file in (folder / "disturbed").rglob("state.pt")]
        runs = len(finished_runs(folder / "disturbed"))
    if different or left_over:
        sys.exit(f"{len(different)} records differ: {different[:5]}; left over: {left_over[:5]}")
    print(
        f"{hits['driver']} kills of the driver and {hits['worker']} of workers: {runs} runs, "
        f"{len(expected)} records, all the same byte by byte; no finished run was lost or computed again"
    )


def without_ledger(records: dict[str, bytes]) -> dict[str, bytes]:
    """The ledger tells of interruptions: each restart opens the test set again, and says so."""
    return {name: content for name, content in records.items() if name != "ledger.jsonl"}


if __name__ == "__main__":
    main()
