"""``levelfield study``: experiments about the measuring itself, with tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.run import QuietOption, SetOption

app = typer.Typer(help="Studies of the measuring itself: tables and figures.", no_args_is_help=True)

OutOption = Annotated[
    Path | None, typer.Option("--out", help="Folder; runs/study-NAME by default.", show_default=False)
]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.")]


@app.command("test-feedback")
def test_feedback(
    file: Annotated[
        Path | None, typer.Argument(help="An experiment file; Glyphs by default.", show_default=False)
    ] = None,
    *,
    overrides: SetOption = None,
    out: OutOption = None,
    quiet: QuietOption = False,
) -> None:
    """Tune the same methods by validation and by test scores: how much does the second inflate?"""
    from levelfield.cli._progress import progress
    from levelfield.config import Experiment, build
    from levelfield.studies import test_feedback as study

    changes = tuple(overrides or ())
    if file is not None:
        experiment = Experiment.load(file, changes)
    else:
        values = study.default_experiment().model_dump(mode="json")
        experiment = build(values, changes, origin="test-feedback")
    folder = _folder(out, "test-feedback")
    with progress(quiet=quiet) as shown:
        study.run(experiment, folder, progress=shown)
    _show(folder, "test-feedback")


@app.command("search-luck")
def search_luck(
    file: Annotated[Path, typer.Argument(help="An experiment file.", show_default=False)],
    *,
    method: Annotated[str | None, typer.Option(help="Which method; the first one by default.")] = None,
    repeats: Annotated[int, typer.Option(help="How many searches.")] = 5,
    overrides: SetOption = None,
    out: OutOption = None,
    quiet: QuietOption = False,
) -> None:
    """Search one method several times: how often does luck in the search look like a difference?"""
    from levelfield.cli._progress import progress
    from levelfield.config import Experiment
    from levelfield.studies import search_luck as study

    folder = _folder(out, "search-luck")
    with progress(quiet=quiet) as shown:
        experiment = Experiment.load(file, tuple(overrides or ()))
        study.run(experiment, folder, method=method, repeats=repeats, progress=shown)
    _show(folder, "search-luck")


@app.command("metrics-on-random")
def metrics_on_random(*, out: OutOption = None, seed: SeedOption = 0, quiet: QuietOption = False) -> None:
    """What each measure gives for embeddings that know nothing."""
    from levelfield.studies import metrics_on_random as study

    folder = _folder(out, "metrics-on-random")
    with _status(quiet=quiet) as advance:
        study.run(folder, seed=seed, advance=advance)
    _show(folder, "metrics-on-random")


@app.command("metrics-on-toys")
def metrics_on_toys(*, out: OutOption = None, seed: SeedOption = 0, quiet: QuietOption = False) -> None:
    """What each measure gives for embeddings whose quality the eye can judge."""
    from levelfield.studies import metrics_on_toys as study

    folder = _folder(out, "metrics-on-toys")
    with _status(quiet=quiet) as advance:
        study.run(folder, seed=seed, advance=advance)
    _show(folder, "metrics-on-toys")


@app.command("toy-lines")
def toy_lines(
    *,
    out: OutOption = None,
    seeds: Annotated[int, typer.Option(min=2, help="Networks per toy and setting.")] = 200,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Does rho-regularisation keep features that training does not ask for?"""
    from levelfield.studies import toy_lines as study

    folder = _folder(out, "toy-lines")
    with _status(quiet=quiet) as advance:
        study.run(folder, seeds=seeds, seed=seed, advance=advance)
    _show(folder, "toy-lines")


def _folder(out: Path | None, name: str) -> Path:
    folder = out or Path("runs") / f"study-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _show(folder: Path, name: str) -> None:
    print((folder / f"{name}.md").read_text(encoding="utf-8"))
    files = sorted(str(file) for file in folder.glob(f"{name}*") if file.is_file())
    print("Written: " + ", ".join(files))


@contextmanager
def _status(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """What is being computed, on stderr."""
    if quiet:
        yield lambda description: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update
