"""The examples run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("score_embeddings.py", "map_at_r"),
        ("train_with_a_loss.py", "step  40"),
        ("compare.py", "report:"),
    ],
)
def test_example(name: str, expected: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / name), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "score_embeddings.py",
        "train_with_a_loss.py",
        "compare.py",
    }
