"""CONTRIBUTING.md, followed literally: plug-ins of one's own, through the whole protocol."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
LOSS, METRIC, FIGURE = "Add a loss in one file", "Add a metric in one file", "Add a figure in one file"
PARTS = "Add a dataset, a trunk, a sampler or an engine in one file"
SMALLER = [
    *("--set", "search.trials=1", "--set", "confirm.reruns=2", "--set", "engine.workers=0"),
    *("--set", "training.max_epochs=1", "--set", "training.iterations_per_epoch=3"),
    *("--set", "split.folds=2", "--set", "trunk.width=4"),
]


def blocks(section: str, language: str) -> list[str]:
    """The blocks of one language below the heading ``section``, up to the next one of its rank."""
    _, found, rest = TEXT.partition(f"\n## {section}\n")
    assert found, f'CONTRIBUTING.md has no section "{section}"'
    return re.findall(rf"^```{language}\n(.*?)^```", rest.split("\n## ")[0], flags=re.DOTALL | re.MULTILINE)


def follow(command: list[str], folder: Path) -> str:
    """Run a command of the recipe as it stands; its output."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_throw_away_loss_and_figure_run_through_the_whole_protocol(tmp_path: Path) -> None:
    loss, check = blocks(LOSS, "python")
    (tmp_path / "my_loss.py").write_text(loss)
    (tmp_path / "my_experiment.yaml").write_text(blocks(LOSS, "yaml")[0])
    command = blocks(LOSS, "sh")[0].split()
    assert command[:2] == ["levelfield", "run"]
    assert "cosine_hinge" in follow([*command, *SMALLER], tmp_path)
    assert (tmp_path / "runs" / "my_experiment" / "report" / "index.html").exists()

    script = f"import sys; sys.path.insert(0, '.'); import my_loss\n{check}"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True)

    (figure,) = blocks(FIGURE, "python")
    (tmp_path / "my_figure.py").write_text(figure)
    (command,) = (line.split() for line in blocks(FIGURE, "sh"))
    follow(command, tmp_path)
    drawn = tmp_path / "runs" / "my_experiment" / "report" / "figures" / "every-rerun"
    assert drawn.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "Every rerun" in drawn.with_suffix(".html").read_text()


def test_the_throw_away_metric_is_checked_selects_and_is_reported(tmp_path: Path) -> None:
    metric, check = blocks(METRIC, "python")
    (tmp_path / "my_metric.py").write_text(metric)
    (tmp_path / "my_experiment.yaml").write_text(blocks(METRIC, "yaml")[0])
    script = f"import sys; sys.path.insert(0, '.'); import my_metric\n{check}"
    checked = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "All@5" in checked.stdout
    command = ["levelfield", "run", "my_experiment.yaml", *SMALLER, "--set", "methods=[contrastive]"]
    assert "All@5" in follow(command, tmp_path)


def test_the_throw_away_dataset_trunk_sampler_and_engine_run_through_the_whole_protocol(
    tmp_path: Path,
) -> None:
    parts, check = blocks(PARTS, "python")
    (tmp_path / "my_parts.py").write_text(parts)
    (tmp_path / "my_experiment.yaml").write_text(blocks(PARTS, "yaml")[0])
    script = f"import sys; sys.path.insert(0, '.'); import my_parts\n{check}"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "in_order" in follow(["levelfield", "run", "my_experiment.yaml", *SMALLER], tmp_path)
