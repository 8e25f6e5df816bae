"""Losses of two checkouts in turn: find losses that were faster than pytorch-metric-learning and got slower.

    git worktree add ../before COMMIT
    python -m benchmarks.speed.losses_before ../before --batch 32 512

Each checkout has its own process with one thread, which times the rows of its own ``losses.py``. They
take turns at every row, together with the peer, and processor time counts, so a busy machine affects both
sides alike. A figure is the least of all turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[2]
SLOWER = 1.1  # more than two runs of the same code differ


class Side:
    """Checkout with the process that times its losses."""

    def __init__(self, checkout: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
        script = checkout / "benchmarks" / "speed" / "losses.py"
        if not script.exists():  # before 0.2
            script = checkout / "benchmarks" / "losses.py"
        command = [sys.executable, __file__, "--serve", str(script)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.titles: dict[str, bool] = json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def milliseconds(self, title: str, size: int, *, peer: bool = False) -> float:
        """Return the least of a few forward and backward passes."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([title, size, peer]) + "\n")
        return float(self._line())

    def close(self) -> None:
        """End the process by closing its input."""
        self._process.communicate()


def serve(script: Path, seconds: float) -> None:
    """Time the requests on standard input, one per line."""
    spec = importlib.util.spec_from_file_location("bench", script)
    assert spec is not None
    assert spec.loader is not None
    bench = cast("Any", importlib.util.module_from_spec(spec))
    sys.modules["bench"] = bench
    spec.loader.exec_module(bench)
    rows = {row.title: row for row in bench.ROWS}
    print(json.dumps({title: row.peer is not None for title, row in rows.items()}), flush=True)
    for line in sys.stdin:
        title, size, peer = json.loads(line)
        x, labels = bench.batch(size)
        loss = (rows[title].theirs if peer else rows[title].ours)(labels)
        times: list[float] = []
        end = time.perf_counter() + seconds
        while not times or (time.perf_counter() < end) or (len(times) < 4 and times[0] < 1e3 * seconds):
            x.grad = None
            start = time.process_time()
            loss(x).backward()
            times.append(1e3 * (time.process_time() - start))
        print(min(times), flush=True)


def compare(before: Side, now: Side, sizes: list[int], turns: int, names: list[str] | None) -> None:
    """Print a table of the rows that both sides have, or of the named ones."""
    slower = []
    print("| loss | batch | before | now | now / before | PML | verdict |\n|---|---|---|---|---|---|---|")
    for size in sizes:
        for title, has_peer in now.titles.items():
            if title not in before.titles or (names is not None and title not in names):
                continue
            best = {"before": float("inf"), "now": float("inf"), "peer": float("inf")}
            for turn in range(turns):
                best["before"] = min(best["before"], before.milliseconds(title, size))
                best["now"] = min(best["now"], now.milliseconds(title, size))
                if has_peer and (turn == 0 or best["peer"] < 500):
                    best["peer"] = min(best["peer"], now.milliseconds(title, size, peer=True))
            ratio = best["now"] / best["before"]
            lost = has_peer and best["before"] < best["peer"] and ratio > SLOWER
            slower += [f"{title} at {size}"] if lost else []
            verdict = (
                "slower than before" if ratio > SLOWER else "faster" if ratio < 1 / SLOWER else "as before"
            )
            if has_peer and best["now"] > best["peer"]:
                verdict += ", slower than PML"
            peer = f"{best['peer']:.2f}" if has_peer else ""
            figures = f"{best['before']:.2f} | {best['now']:.2f} | {ratio:.2f}"
            print(f"| {title} | {size} | {figures} | {peer} | {verdict} |", flush=True)
    print("\nfaster than PML before, and slower now by more than 10%:", "; ".join(slower) or "none")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, nargs="?", help="the other checkout")
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 512])
    parser.add_argument("--loss", nargs="+", help="only these rows")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="seconds of each turn")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.seconds)
        return
    if options.before is None:
        parser.error("the other checkout is missing; give its path")
    before, now = Side(options.before.resolve()), Side(ROOT)
    try:
        compare(before, now, options.batch, options.turns, options.loss)
    finally:
        before.close()
        now.close()


if __name__ == "__main__":
    main()
