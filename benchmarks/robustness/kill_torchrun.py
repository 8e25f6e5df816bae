"""Kill processes of an experiment under torchrun at random moments; the records must not change.

    python -m benchmarks.robustness.kill_torchrun --kills 20

Two ranks train each run together. The script kills rank zero, rank one, torchrun itself, or all of them, and
gives the same command again. Every command must end by itself: a rank whose partner was killed must not wait
for ever. At the end the records are compared byte by byte with those of an undisturbed run.
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
from collections import Counter
from pathlib import Path

import yaml
from tests.helpers.records_snapshot import differences, records_of

from benchmarks.robustness.kill_engine import (
    LAST_KILL,
    Watch,
    experiment,
    finished_runs,
    progress_of,
    without_ledger,
)

KINDS = ("rank 0", "rank 1", "torchrun", "all")
PATIENCE = 120.0  # seconds in which the processes must have ended after a kill


def command(file: Path, out: Path) -> list[str]:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "levelfield"]
    return [sys.executable, *torchrun, "run", str(file), "--out", str(out), "--quiet"]


def ranks(agent: int) -> dict[int, int]:
    """Return the processes of torchrun by rank."""
    found = {}
    try:
        for pid in Path(f"/proc/{agent}/task/{agent}/children").read_text().split():
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            found |= {int(each[5:]): int(pid) for each in variables if each.startswith(b"RANK=")}
    except OSError:  # it has just ended
        pass
    return found


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_for_end(pids: list[int]) -> None:
    """Wait until all processes have ended; stop the attack if they hang."""
    until = time.monotonic() + PATIENCE
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() > until:
            sys.exit(f"stuck: {[pid for pid in pids if is_alive(pid)]} did not end after {PATIENCE:.0f} s")
        time.sleep(0.1)


def kill(kind: str, agent: int, found: dict[int, int]) -> None:
    victims = {
        "rank 0": [found[0]],
        "rank 1": [found[1]],
        "torchrun": [agent],
        "all": [agent, *found.values()],
    }
    for pid in victims[kind]:
        os.kill(pid, signal.SIGKILL)


def run_with_kills(file: Path, out: Path, moments: list[float], chance: random.Random) -> Counter[str]:
    """Run the experiment with a kill at each moment of its progress; return the number of kills by kind."""
    hits: Counter[str] = Counter()
    watch, waiting = Watch(), sorted(moments, reverse=True)
    while True:
        said = file.with_suffix(".stderr")  # a file: the ranks of a killed torchrun would keep a pipe open
        with said.open("wb") as target:
            agent = subprocess.Popen(command(file, out), stdout=subprocess.DEVNULL, stderr=target)
        found: dict[int, int] = {}
        killed = False
        while agent.poll() is None and waiting and not killed:
            found = ranks(agent.pid)
            if len(found) < 2 or progress_of(out) < waiting[-1]:
                time.sleep(0.05)
                continue
            time.sleep(chance.uniform(0.0, 3.0))
            watch.look(out)
            kind = KINDS[sum(hits.values()) % len(KINDS)]
            try:
                kill(kind, agent.pid, found)
            except ProcessLookupError:
                break
            hits[kind] += 1
            waiting.pop()
            killed = True
        agent.wait()
        wait_for_end(list(found.values()))
        watch.look(out)
        print(dict(hits), f"progress {progress_of(out)}", flush=True)
        if agent.returncode == 0:
            return hits
        if not killed:
            sys.exit(f"the command ended with {agent.returncode}: {said.read_text(errors='replace')[-800:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--methods", type=int, default=2)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="levelfield-torchrun-") as name:
        folder = Path(name)
        file = folder / "killed.yaml"
        file.write_text(yaml.safe_dump(experiment(options.methods, options.trials)))
        subprocess.run(command(file, folder / "undisturbed"), check=True, capture_output=True)
        end, chance = progress_of(folder / "undisturbed"), random.Random(options.seed)
        moments = [chance.uniform(0, LAST_KILL * end) for _ in range(options.kills)]
        hits = run_with_kills(file, folder / "disturbed", moments, chance)
        expected, found = (records_of(folder / each) for each in ("undisturbed", "disturbed"))
        different = differences(without_ledger(expected), without_ledger(found))
        runs = len(finished_runs(folder / "disturbed"))
    if different:
        sys.exit(f"{len(different)} records differ: {different[:5]}")
    print(
        f"{sum(hits.values())} kills ({dict(hits)}): {runs} runs, {len(expected)} records, all the same byte "
        "by byte; no finished run was lost or computed again, no process was left"
    )


if __name__ == "__main__":
    main()
