"""A worker and the driver of running workers are killed: no record changes, and none is computed again.

``benchmarks/robustness/kill_engine.py`` does it a hundred times at random moments.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.helpers.records_snapshot import differences, records_of
from tests.helpers.warm import WarmProcess, run_levelfield, start_levelfield

import levelfield as lf


def finished_runs(out: Path) -> dict[str, int]:
    """Return the time at which each finished run ended."""
    return {file.parent.name: file.stat().st_mtime_ns for file in out.glob("runs/*/result.json")}


def wait_for_runs(driver: WarmProcess, out: Path, count: int) -> None:
    """Wait until so many runs are finished; the driver must still be at work."""
    while len(finished_runs(out)) < count:
        assert driver.poll() is None, f"ended before {count} runs"
        time.sleep(0.01)


def worker_processes(driver: WarmProcess) -> list[int]:
    """Return the worker processes of a driver."""
    children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.slow
def test_a_killed_worker_and_a_killed_driver_change_no_record(tmp_path: Path, tiny: dict[str, Any]) -> None:
    tiny |= {"methods": ["contrastive", "triplet"], "search": {"trials": 4, "sampler": "tpe"}}
    tiny["engine"] = {"workers": 2}
    file, out = tmp_path / "tiny.yaml", tmp_path / "out"
    file.write_text(yaml.safe_dump(tiny))
    run = ["run", str(file), "--out", str(out), "--quiet"]
    driver = start_levelfield(run)
    wait_for_runs(driver, out, 1)
    os.kill(worker_processes(driver)[0], signal.SIGKILL)
    wait_for_runs(driver, out, 6)
    assert len(worker_processes(driver)) == 2, "the killed worker was replaced"
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    finished = finished_runs(out)
    done = run_levelfield(run)
    assert done.returncode == 0, done.stderr
    assert finished == {name: finished_runs(out)[name] for name in finished}, "none is computed again"

    expected = records_of(lf.run(tiny | {"engine": {"workers": 0}}, tmp_path / "undisturbed").path)
    found = records_of(out)
    # The ledger tells of interruptions: a restart may open the test set again, and says so.
    assert [name for name in differences(expected, found) if name != "ledger.jsonl"] == []
    assert not list(out.rglob("state.pt"))
