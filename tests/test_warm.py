"""Warm processes have torch at once, and an environment and a directory of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers.warm import run_warm

pytestmark = pytest.mark.slow

TELL = """
import os, sys
print("torch" in sys.modules, "timm" in sys.modules, os.environ["MINE"], os.getcwd(), sys.argv[1:])
print("said", file=sys.stderr)
sys.exit(3)
"""


def test_a_warm_process_is_a_process_of_its_own(tmp_path: Path) -> None:
    done = run_warm(["-c", TELL, "a", "b"], cwd=tmp_path, env=os.environ | {"MINE": "yes"})
    assert done.stdout == f"True False yes {tmp_path} ['a', 'b']\n"
    assert (done.returncode, done.stderr) == (3, "said\n")
    assert "MINE" not in os.environ and Path.cwd() != tmp_path


def test_an_error_is_a_traceback_and_a_code() -> None:
    done = run_warm(["-c", "raise ValueError('mine')"])
    assert done.returncode == 1 and "ValueError: mine" in done.stderr
