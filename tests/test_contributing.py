"""CONTRIBUTING.md, followed literally: plug-ins of one's own, through the whole protocol."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()


def blocks(language: str, *, under: str) -> list[str]:
    """The code blocks of one language below one heading."""
    (section,) = re.findall(rf"^## {under}\n(.*?)(?=^## |\Z)", TEXT, flags=re.DOTALL | re.MULTILINE)
    return re.findall(rf"```{language}\n(.*?)```", section, flags=re.DOTALL)


SMALLER = [
    *("--set", "search.trials=1", "--set", "confirm.reruns=2", "--set", "engine.workers=0"),
    *("--set", "training.max_epochs=1", "--set", "training.iterations_per_epoch=3"),
    *("--set", "split.folds=2", "--set", "trunk.width=4"),
]


def python(*arguments: str, folder: Path) -> str:
    """What a command of this Python prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_throw_away_loss_runs_through_the_whole_protocol(tmp_path: Path) -> None:
    recipe = "Add a loss in one file"
    loss, check = blocks("python", under=recipe)
    (tmp_path / "my_loss.py").write_text(loss)
    (tmp_path / "my_experiment.yaml").write_text(blocks("yaml", under=recipe)[0])
    command = blocks("sh", under=recipe)[0].split()
    assert command[:2] == ["levelfield", "run"]
    assert "cosine_hinge" in python("-m", *command, *SMALLER, folder=tmp_path)
    assert (tmp_path / "runs" / "my_experiment" / "report" / "index.html").exists()
    python("-c", f"import sys; sys.path.insert(0, '.'); import my_loss\n{check}", folder=tmp_path)


def test_the_throw_away_metric_is_checked_selects_and_is_reported(tmp_path: Path) -> None:
    recipe = "Add a metric in one file"
    metric, check = blocks("python", under=recipe)
    (tmp_path / "my_metric.py").write_text(metric)
    (tmp_path / "my_experiment.yaml").write_text(blocks("yaml", under=recipe)[0])
    script = f"import sys; sys.path.insert(0, '.'); import my_metric\n{check}"
    assert "All@5" in python("-c", script, folder=tmp_path)
    one_method = [*SMALLER, "--set", "methods=[contrastive]"]
    printed = python("-m", "levelfield", "run", "my_experiment.yaml", *one_method, folder=tmp_path)
    assert "All@5" in printed or "all_found_at_5" in printed
