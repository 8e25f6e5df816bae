"""An experiment that is killed anywhere and started again gives the same bits.

Workers and their driver are killed in ``tests/engine/test_kills.py``.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.helpers.warm import run_levelfield, start_levelfield

import levelfield as lf

KILLS = 5


def snapshot(out: Path) -> dict[str, bytes]:
    """Return every record whose content must not depend on interruptions."""
    kept: dict[str, bytes] = {}
    for pattern in (
        "runs/*/spec.json",
        "runs/*/epochs.jsonl",
        "runs/*/result.json",
        "runs/*/best.safetensors",
    ):
        kept |= {str(file.relative_to(out)): file.read_bytes() for file in out.glob(pattern)}
    for pattern in ("searches/**/*.json", "selections/*.json", "confirmations/**/*", "report/results.*"):
        kept |= {
            str(file.relative_to(out)): file.read_bytes() for file in out.glob(pattern) if file.is_file()
        }
    return kept


def newest(out: Path) -> float:
    """Return the time of the last write of a run."""
    times = [0.0]
    for file in (out / "runs").rglob("*"):
        try:
            times.append(file.stat().st_mtime)
        except FileNotFoundError:  # a temporary file that was renamed in between
            continue
    return max(times)


def kill_at_a_random_moment(run: list[str], out: Path, chance: random.Random) -> bool:
    """Start the experiment and SIGKILL it some time after its first write; return False if it finished."""
    began = time.time()
    process = start_levelfield(run)
    while process.poll() is None and newest(out) < began:
        time.sleep(0.005)
    moment = time.time() + chance.uniform(0.0, 0.3)
    while process.poll() is None and time.time() < moment:
        time.sleep(0.002)
    process.kill()
    code = process.wait()
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.slow
def test_sigkill_at_random_moments_changes_no_bit(tmp_path: Path, tiny: dict[str, Any]) -> None:
    tiny |= {"methods": ["triplet", "normalized_softmax"], "search": {"trials": 6, "sampler": "gp"}}
    file, undisturbed, disturbed = (tmp_path / name for name in ("tiny.yaml", "undisturbed", "disturbed"))
    file.write_text(yaml.safe_dump(tiny))
    lf.run(tiny, undisturbed)

    disturbed.mkdir()
    run = ["run", str(file), "--out", str(disturbed), "--quiet"]
    chance = random.Random()
    for kills in range(KILLS):
        assert kill_at_a_random_moment(run, disturbed, chance), f"finished after {kills} kills only"
    done = run_levelfield(run)
    assert done.returncode == 0, done.stderr

    expected, found = snapshot(undisturbed), snapshot(disturbed)
    assert found.keys() == expected.keys()
    different = [name for name in expected if found[name] != expected[name]]
    assert not different
    assert not list(disturbed.rglob("state.pt")) and not list(disturbed.glob("runs/*/.*.tmp"))
