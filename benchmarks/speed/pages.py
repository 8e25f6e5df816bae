"""Pages under load: 100 experiments with 10,000 runs, and the size of reports.

    python -m benchmarks.speed.pages [--experiments 100] [--runs 10000]

Prints the time from start to the first response, the time of single responses, the server's memory at
this load and at twice the load, and the size of a report of 3 methods and of 14 methods with 50 trials
each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.helpers.made_experiments import written

from levelfield.reports import write_report
from levelfield.reports.web import ExperimentMonitor

SPEC = '{"schema_version": 2}\n'
RESULT = '{"status": "complete", "best_epoch": 4, "last_epoch": 8, "validation": {"map_at_r": 0.5}}\n'
EPOCHS = "".join(f'{{"epoch": {n}, "loss": 0.5, "scores": {{"map_at_r": 0.4}}}}\n' for n in range(0, 10, 2))


def fill(directory: Path, *, experiments: int, runs: int) -> None:
    """Write experiments of 4 methods and 60 trials each, with run directories."""
    for number in range(experiments):
        root = written(directory / f"experiment-{number:03d}", name=f"experiment-{number:03d}", trials=20)
        for run in range(runs // experiments):
            path = root / "runs" / f"{number:08x}{run:08x}"
            path.mkdir(parents=True)
            (path / "spec.json").write_text(SPEC)
            (path / "result.json").write_text(RESULT)
            (path / "epochs.jsonl").write_text(EPOCHS)


def memory(pid: int) -> float:
    """Return the resident memory of a process in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request(name: str, address: str, pid: int) -> None:
    clock, taken = time.perf_counter(), processor_seconds(pid)
    with urllib.request.urlopen(address) as answer:
        size = len(answer.read())
    clock, taken = time.perf_counter() - clock, processor_seconds(pid) - taken
    print(f"  {name:30} {taken:6.2f} s of processor, {clock:6.2f} s by the clock, {size / 1000:8.0f} kB")


def serve(directory: Path) -> None:
    command = [sys.executable, "-m", "levelfield", "serve", str(directory), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        print(f"  {'start-up':30} {processor_seconds(server.pid):6.2f} s of processor")
        request("first page", address, server.pid)
        time.sleep(1)
        request("the same again", address, server.pid)
        request("changes since the last version", f"{address}list?since={version(directory)}", server.pid)
        key = ExperimentMonitor([directory]).states()[0].key
        for page in ("live", "trials?method=triplet", "report", "report"):
            request(page, f"{address}e/{key}/{page}", server.pid)
        print(f"  {'memory':30} {memory(server.pid):6.0f} MB")
    finally:
        server.terminate()
        server.wait()


def version(directory: Path) -> str:
    return ExperimentMonitor([directory]).version


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--experiments", type=int, default=100)
    parser.add_argument("--runs", type=int, default=10_000)
    wanted = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="levelfield-pages-"))
    try:
        for times in (1, 2):
            experiments, runs = times * wanted.experiments, times * wanted.runs
            records = directory / f"x{times}"
            fill(records, experiments=experiments, runs=runs)
            print(f"{experiments} experiments, {runs} runs, {experiments * 60} trials:")
            serve(records)
        for methods, trials in ((3, 5), (14, 50)):
            means = {f"method-{number}": 0.3 + 0.01 * number for number in range(methods)} | {
                "untrained": 0.1
            }
            root = written(directory / f"report-{methods}", means=means, trials=trials, queries=6000)
            size = write_report(root).stat().st_size / 1e6
            print(f"report of {methods} methods x {trials} trials: {size:.2f} MB without images")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
