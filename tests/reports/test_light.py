"""Reading is light: a report is made from records without torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Writer = Callable[..., Path]
SAY = "import sys; print('torch' in sys.modules)"


def loads_torch(code: str) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{SAY}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1] == "True"


@pytest.mark.parametrize(
    "room", ["records", "compare", "reports", "reports.figures", "reports.sweeps", "published"]
)
def test_importing_a_room_that_reads_does_not_load_torch(room: str) -> None:
    assert not loads_torch(f"import levelfield.{room}")


@pytest.mark.parametrize("command", [["report"], ["report", "--figures"], ["compare"], ["compare", "--json"]])
def test_a_command_that_reads_does_not_load_torch(write_experiment: Writer, command: list[str]) -> None:
    root = write_experiment(means={"mine": 0.5, "other": 0.4, "untrained": 0.1})
    arguments = [command[0], str(root), *command[1:]]
    code = f"from levelfield.cli._app import run_app\nassert run_app({arguments!r}) == 0"
    assert not loads_torch(code)
