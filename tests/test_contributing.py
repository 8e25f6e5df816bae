"""CONTRIBUTING.md, followed literally: a loss of one's own, through the whole protocol."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def test_the_throw_away_loss_runs_through_the_whole_protocol(tmp_path: Path) -> None:
    loss, check = blocks("python")
    (tmp_path / "my_loss.py").write_text(loss)
    (tmp_path / "my_experiment.yaml").write_text(blocks("yaml")[0])
    command = blocks("sh")[0].split()
    assert command[:2] == ["levelfield", "run"]
    smaller = [
        *("--set", "search.trials=1", "--set", "confirm.reruns=2", "--set", "engine.workers=0"),
        *("--set", "training.max_epochs=1", "--set", "training.iterations_per_epoch=3"),
        *("--set", "split.folds=2", "--set", "trunk.width=4"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", *command, *smaller], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "cosine_hinge" in done.stdout
    assert (tmp_path / "runs" / "my_experiment" / "report" / "index.html").exists()

    script = f"import sys; sys.path.insert(0, '.'); import my_loss\n{check}"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True)
