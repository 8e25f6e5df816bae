"""Workers and the driver killed at random moments: the short version of benchmarks/kill_engine.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks" / "kill_engine.py"


def test_eight_kills_change_no_record() -> None:
    command = [sys.executable, str(SCRIPT), "--kills", "8", "--methods", "2", "--trials", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all the same byte by byte" in done.stdout
