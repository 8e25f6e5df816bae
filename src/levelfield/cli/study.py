"""``levelfield study``: studies of the evaluation method, with tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.run import QuietOption, SetOption

app = typer.Typer(help="Studies of the evaluation method itself: tables and figures.", no_args_is_help=True)

OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Output directory. Defaults to runs/study-NAME.", show_default=False),
]
SeedOption = Annotated[int, typer.Option(help="Random seed.")]


@app.command("test-feedback")
def test_feedback(
    file: Annotated[
        Path | None,
        typer.Argument(help="Experiment file. Defaults to a small experiment on Glyphs.", show_default=False),
    ] = None,
    *,
    overrides: SetOption = None,
    out: OutOption = None,
    quiet: QuietOption = False,
) -> None:
    """Measure how much scores are inflated by tuning on the test set."""
    from levelfield.cli._progress import experiment_progress
    from levelfield.config import Experiment, build
    from levelfield.studies import test_feedback as study

    changes = tuple(overrides or ())
    if file is not None:
        experiment = Experiment.load(file, changes)
    else:
        values = study.default_experiment().model_dump(mode="json")
        experiment = build(values, changes, origin="test-feedback")
    directory = _output_directory(out, "test-feedback")
    with experiment_progress(quiet=quiet) as shown:
        study.run_study(experiment, directory, progress=shown)
    _show(directory, "test-feedback")


@app.command("search-luck")
def search_luck(
    file: Annotated[Path, typer.Argument(help="Experiment file.", show_default=False)],
    *,
    method: Annotated[str | None, typer.Option(help="Method. Defaults to the first one.")] = None,
    repeats: Annotated[int, typer.Option(help="Number of searches.")] = 5,
    overrides: SetOption = None,
    out: OutOption = None,
    quiet: QuietOption = False,
) -> None:
    """Repeat the search of one method, and count how often chance looks like a difference."""
    from levelfield.cli._progress import experiment_progress
    from levelfield.config import Experiment
    from levelfield.studies import search_luck as study

    directory = _output_directory(out, "search-luck")
    with experiment_progress(quiet=quiet) as shown:
        experiment = Experiment.load(file, tuple(overrides or ()))
        study.run_study(experiment, directory, method=method, repeats=repeats, progress=shown)
    _show(directory, "search-luck")


@app.command("metrics-on-random")
def metrics_on_random(*, out: OutOption = None, seed: SeedOption = 0, quiet: QuietOption = False) -> None:
    """Compute each metric for random embeddings."""
    from levelfield.cli._progress import task_progress
    from levelfield.studies import metrics_on_random as study

    directory = _output_directory(out, "metrics-on-random")
    with task_progress(quiet=quiet) as progress:
        study.run_study(directory, seed=seed, advance=progress.status)
    _show(directory, "metrics-on-random")


@app.command("metrics-on-toys")
def metrics_on_toys(*, out: OutOption = None, seed: SeedOption = 0, quiet: QuietOption = False) -> None:
    """Compute each metric for two-dimensional toy embeddings."""
    from levelfield.cli._progress import task_progress
    from levelfield.studies import metrics_on_toys as study

    directory = _output_directory(out, "metrics-on-toys")
    with task_progress(quiet=quiet) as progress:
        study.run_study(directory, seed=seed, advance=progress.status)
    _show(directory, "metrics-on-toys")


@app.command("toy-lines")
def toy_lines(
    *,
    out: OutOption = None,
    seeds: Annotated[int, typer.Option(min=2, help="Number of networks per toy problem and setting.")] = 200,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Test whether rho-regularization keeps features that the training labels do not need."""
    from levelfield.cli._progress import task_progress
    from levelfield.studies import toy_lines as study

    directory = _output_directory(out, "toy-lines")
    with task_progress(quiet=quiet) as progress:
        study.run_study(directory, seeds=seeds, seed=seed, advance=progress.status)
    _show(directory, "toy-lines")


@app.command("structure")
def structure(
    directory: Annotated[
        Path, typer.Argument(help="Directory of a finished experiment.", show_default=False)
    ],
    *,
    metric: Annotated[str | None, typer.Option(help="Test metric. Defaults to the selection metric.")] = None,
    root: Annotated[Path | None, typer.Option(help="Root of the dataset.")] = None,
    weights: Annotated[str | None, typer.Option(help="Weights of the trunk, if they are a file.")] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="Plug-in file (repeatable).")] = None,
    out: OutOption = None,
    quiet: QuietOption = False,
) -> None:
    """Compare the structure of training embeddings (rho, pi, spectra) with test scores."""
    from levelfield.cli._progress import task_progress
    from levelfield.studies import structure as study

    target = _output_directory(out, "structure")
    with task_progress(quiet=quiet) as progress:
        study.run_study(
            directory,
            target,
            metric=metric,
            dataset_root=root,
            weights=weights,
            plugins=tuple(plugin or ()),
            advance=progress.status,
        )
    _show(target, "structure")


def _output_directory(out: Path | None, name: str) -> Path:
    from levelfield.records import default_directory

    directory = out or default_directory(f"study-{name}")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _show(directory: Path, name: str) -> None:
    print((directory / f"{name}.md").read_text(encoding="utf-8"))
    files = sorted(str(file) for file in directory.glob(f"{name}*") if file.is_file())
    print("Written: " + ", ".join(files))
