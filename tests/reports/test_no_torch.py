"""Reports and comparisons are made without torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Writer = Callable[..., Path]
ROOMS = ("records", "analysis", "reports", "reports.figures", "reports.sweeps", "analysis.published")
COMMANDS = (["report"], ["report", "--figures"], ["compare"], ["compare", "--json"])


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_a_room_that_reads_does_not_load_torch() -> None:
    code = "assert 'torch' not in sys.modules, {room!r}"
    run("import sys\n" + "\n".join(f"import levelfield.{room}\n{code.format(room=room)}" for room in ROOMS))


def test_a_command_that_reads_does_not_load_torch(write_experiment: Writer) -> None:
    root = write_experiment(means={"mine": 0.5, "other": 0.4, "untrained": 0.1})
    run(
        f"import sys\nfrom levelfield.cli._app import run_app\nfor verb, *options in {COMMANDS!r}:\n"
        f"    assert run_app([verb, {str(root)!r}, *options]) == 0, verb\n"
        "    assert 'torch' not in sys.modules, (verb, options)"
    )
