"""Pages under load: a folder of 100 experiments with 10,000 runs, and the size of reports.

    python benchmarks/pages.py [--experiments 100] [--runs 10000]

Prints the time from start to the first answer, the time of single answers, the server's memory at once and
at twice the load, and the bytes of a report of 3 methods and of 14 methods with 50 trials each.
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

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from levelfield.reports import write_report  # noqa: E402
from levelfield.web import Catalogue  # noqa: E402
from made_experiments import written  # noqa: E402

SPEC = '{"schema_version": 2}\n'
RESULT = '{"status": "complete", "best_epoch": 4, "last_epoch": 8, "validation": {"map_at_r": 0.5}}\n'
EPOCHS = "".join(f'{{"epoch": {n}, "loss": 0.5, "scores": {{"map_at_r": 0.4}}}}\n' for n in range(0, 10, 2))


def fill(folder: Path, *, experiments: int, runs: int) -> None:
    """Experiments of 4 methods and 60 trials each, with run folders as training leaves them."""
    for number in range(experiments):
        root = written(folder / f"experiment-{number:03d}", name=f"experiment-{number:03d}", trials=20)
        for run in range(runs // experiments):
            home = root / "runs" / f"{number:08x}{run:08x}"
            home.mkdir(parents=True)
            (home / "spec.json").write_text(SPEC)
            (home / "result.json").write_text(RESULT)
            (home / "epochs.jsonl").write_text(EPOCHS)


def memory(pid: int) -> float:
    """Megabytes that a process holds."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


def processor_seconds(pid: int) -> float:
    """Seconds of processor time that a process has taken; its neighbours do not matter."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(name: str, address: str, pid: int) -> None:
    clock, taken = time.perf_counter(), processor_seconds(pid)
    with urllib.request.urlopen(address) as answer:
        size = len(answer.read())
    clock, taken = time.perf_counter() - clock, processor_seconds(pid) - taken
    print(f"  {name:30} {taken:6.2f} s of processor, {clock:6.2f} s by the clock, {size / 1000:8.0f} kB")


def serve(folder: Path) -> None:
    command = [sys.executable, "-m", "levelfield", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        print(f"  {'start-up':30} {processor_seconds(server.pid):6.2f} s of processor")
        ask("first page", address, server.pid)
        time.sleep(1)
        ask("the same again", address, server.pid)
        ask("is anything new?", f"{address}list?since={version(folder)}", server.pid)
        key = Catalogue([folder]).states()[0].key
        for page in ("live", "trials?method=triplet", "report", "report"):
            ask(page, f"{address}e/{key}/{page}", server.pid)
        print(f"  {'memory':30} {memory(server.pid):6.0f} MB")
    finally:
        server.terminate()
        server.wait()


def version(folder: Path) -> str:
    return Catalogue([folder]).version


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--experiments", type=int, default=100)
    parser.add_argument("--runs", type=int, default=10_000)
    wanted = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="levelfield-pages-"))
    try:
        for times in (1, 2):
            experiments, runs = times * wanted.experiments, times * wanted.runs
            home = folder / f"x{times}"
            fill(home, experiments=experiments, runs=runs)
            print(f"{experiments} experiments, {runs} runs, {experiments * 60} trials:")
            serve(home)
        for methods, trials in ((3, 5), (14, 50)):
            means = {f"method-{number}": 0.3 + 0.01 * number for number in range(methods)} | {
                "untrained": 0.1
            }
            root = written(folder / f"report-{methods}", means=means, trials=trials, queries=6000)
            size = write_report(root).stat().st_size / 1e6
            print(f"report of {methods} methods x {trials} trials: {size:.2f} MB without pictures")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
