"""The examples run as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.warm import run_warm

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("score_embeddings.py", "map_at_r"),
        ("train_with_a_loss.py", "step  40"),
        ("compare.py", "report:"),
        ("with_lightning.py", "after:"),
        ("with_accelerate.py", "after:"),
    ],
)
def test_example(name: str, expected: str, tmp_path: Path) -> None:
    if name.startswith("with_"):
        pytest.importorskip(name.removeprefix("with_").removesuffix(".py"))
    done = run_warm([str(EXAMPLES / name), str(tmp_path / "out")])
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
    scores = [
        float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("MAP@R of unseen")
    ]
    assert scores == sorted(scores), "unseen classes are found better after the training"


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "score_embeddings.py",
        "train_with_a_loss.py",
        "compare.py",
        "with_lightning.py",
        "with_accelerate.py",
    }
