"""Kill it anywhere, start it again, get the same bits."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

KILLS = 6


def command(file: Path, out: Path, workers: int) -> list[str]:
    run = [sys.executable, "-m", "levelfield", "run", str(file), "--out", str(out), "--quiet"]
    return [*run, "--set", f"engine.workers={workers}"]


def snapshot(out: Path) -> dict[str, bytes]:
    """Every record whose content must not depend on what happened on the way."""
    kept = {}
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
    """When a run last wrote anything."""
    times = [0.0]
    for file in (out / "runs").rglob("*"):
        try:
            times.append(file.stat().st_mtime)
        except FileNotFoundError:  # a temporary file that has been renamed meanwhile
            continue
    return max(times)


def kill_at_a_random_moment(file: Path, out: Path, workers: int, chance: random.Random) -> bool:
    """Start the experiment and SIGKILL it some time after it began to write; False if it finished."""
    began = time.time()
    process = subprocess.Popen(command(file, out, workers), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while process.poll() is None and newest(out) < began:
        time.sleep(0.01)
    deadline = time.time() + chance.uniform(0.0, 0.5)
    while process.poll() is None and time.time() < deadline:
        time.sleep(0.005)
    if process.poll() is not None:
        assert process.stderr is not None
        assert process.returncode == 0, process.stderr.read().decode()
        return False
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return True


def test_sigkill_at_random_moments_changes_no_bit(tmp_path: Path, tiny: dict[str, Any]) -> None:
    tiny |= {"methods": ["triplet", "normalized_softmax"], "search": {"trials": 12, "sampler": "gp"}}
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny))
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    subprocess.run(command(file, undisturbed, 0), check=True, capture_output=True)

    disturbed.mkdir()
    chance = random.Random()
    kills = 0
    while kills < KILLS:
        workers = 2 if kills % 3 == 2 else 0  # also leave workers behind without their parent
        assert kill_at_a_random_moment(file, disturbed, workers, chance), f"finished after {kills} kills only"
        kills += 1
    subprocess.run(command(file, disturbed, 0), check=True, capture_output=True)

    expected, found = snapshot(undisturbed), snapshot(disturbed)
    assert found.keys() == expected.keys()
    different = [name for name in expected if found[name] != expected[name]]
    assert not different
    assert not list(disturbed.rglob("state.pt")) and not list(disturbed.glob("runs/*/.*.tmp"))
