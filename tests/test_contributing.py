"""The plug-ins that CONTRIBUTING.md prints run through the whole protocol, unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.warm import run_warm

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
LOSS, METRIC, FIGURE = "Add a loss in one file", "Add a metric in one file", "Add a figure in one file"
PARTS = "Add a dataset, a trunk, a sampler or an engine in one file"
SMALLER = [
    *("--set", "search.trials=1", "--set", "confirm.reruns=2", "--set", "engine.workers=0"),
    *("--set", "training.max_epochs=1", "--set", "training.iterations_per_epoch=3"),
    *("--set", "split.folds=2", "--set", "trunk.width=4"),
]
FEW_GLYPHS = ["--set", "dataset.samples_per_class=4"]


def blocks(section: str, language: str) -> list[str]:
    """Return the blocks of one language in the section with this heading."""
    _, found, rest = TEXT.partition(f"\n## {section}\n")
    assert found, f'CONTRIBUTING.md has no section "{section}"'
    return re.findall(rf"^```{language}\n(.*?)^```", rest.split("\n## ")[0], flags=re.DOTALL | re.MULTILINE)


def run_command(command: list[str], directory: Path) -> str:
    """Run a command as printed and return its output."""
    done = run_warm(["-m", *command], cwd=directory)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_script(script: str, directory: Path) -> str:
    """Run Python code as printed and return its output."""
    done = run_warm(["-c", script], cwd=directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_throw_away_loss_and_figure_run_through_the_whole_protocol(tmp_path: Path) -> None:
    loss, check, mined_loss = blocks(LOSS, "python")
    (tmp_path / "my_loss.py").write_text(loss)
    (tmp_path / "my_experiment.yaml").write_text(blocks(LOSS, "yaml")[0])
    command = blocks(LOSS, "sh")[0].split()
    assert command[:2] == ["levelfield", "run"]
    assert "cosine_hinge" in run_command([*command, *SMALLER, *FEW_GLYPHS], tmp_path)
    assert (tmp_path / "runs" / "my_experiment" / "report" / "index.html").exists()

    (tmp_path / "mined_hinge.py").write_text(mined_loss)
    assert "loss cosine_hinge" in run_script(f'{check}\ncheck_loss("mined_hinge.py")', tmp_path)
    run_command(["doctest", "mined_hinge.py"], tmp_path)

    (figure,) = blocks(FIGURE, "python")
    (tmp_path / "my_figure.py").write_text(figure)
    (command,) = (line.split() for line in blocks(FIGURE, "sh"))
    run_command(command, tmp_path)
    drawn = tmp_path / "runs" / "my_experiment" / "report" / "figures" / "every-rerun"
    assert drawn.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "Every rerun" in drawn.with_suffix(".html").read_text()


@pytest.mark.slow
def test_the_throw_away_metric_is_checked_selects_and_is_reported(tmp_path: Path) -> None:
    metric, check = blocks(METRIC, "python")
    (tmp_path / "my_metric.py").write_text(metric)
    (tmp_path / "my_experiment.yaml").write_text(blocks(METRIC, "yaml")[0])
    assert "All@5" in run_script(check, tmp_path)
    command = [
        "levelfield",
        "run",
        "my_experiment.yaml",
        *SMALLER,
        *FEW_GLYPHS,
        "--set",
        "methods=[contrastive]",
    ]
    assert "All@5" in run_command(command, tmp_path)


@pytest.mark.slow
def test_the_throw_away_dataset_trunk_sampler_and_engine_run_through_the_whole_protocol(
    tmp_path: Path,
) -> None:
    parts, check = blocks(PARTS, "python")
    (tmp_path / "my_parts.py").write_text(parts)
    (tmp_path / "my_experiment.yaml").write_text(blocks(PARTS, "yaml")[0])
    run_script(check, tmp_path)
    assert "in_order" in run_command(["levelfield", "run", "my_experiment.yaml", *SMALLER], tmp_path)
