"""``levelfield data``: fetch a dataset, and check one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.errors import RunError, UsageError

if TYPE_CHECKING:
    from levelfield.data import Dataset
    from levelfield.data.check import Findings
    from levelfield.data.splits import SplitPlan

app = typer.Typer(help="Fetch, check and prepare datasets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
_SHOWN = 10


@app.command()
def fetch(
    name: Name,
    *,
    root: Annotated[Path, typer.Option(help="Folder for datasets.")] = Path("data"),
    part: Annotated[
        list[str] | None, typer.Option(help="A part of the dataset only.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the licence without being asked.")] = False,
    quiet: Quiet = False,
) -> None:
    """Download a dataset from its official source; give the same command again to go on after a break."""
    from levelfield.data import fetch as fetching

    typer.echo(fetching.terms(name))
    if not yes:
        _ask()
    with progress_bar(quiet=quiet) as progress:
        say = (lambda message: None) if quiet else (lambda message: typer.echo(message, err=True))
        fetching.fetch(name, root, parts=tuple(part or ()), say=say, progress=progress)
    typer.echo(f"{name} is in {root}; `levelfield data check {name} --root {root}` looks it over")


@app.command()
def check(
    name: Name,
    *,
    root: Annotated[str | None, typer.Option(help="Folder of the dataset.", show_default=False)] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="Another option of the dataset, as key=value.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Split plan whose train/test border is checked.")
    ] = "class_disjoint",
    sheet: Annotated[Path | None, typer.Option(help="Write a contact sheet (PNG) here.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many processes decode.")] = 1,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Count, read every image, and look for duplicates across the train/test border; exit code 1 on any."""
    from levelfield import data
    from levelfield.data import check as checking
    from levelfield.data.contact_sheet import contact_sheet
    from levelfield.data.splits import create

    options = parse_options(option or []) | ({} if root is None else {"root": str(root)})
    dataset = data.load(name, **options)
    plan = create(
        split, dataset.labels, is_test=dataset.is_test, is_validation=dataset.is_validation, **_lenient(split)
    )
    with progress_bar(quiet=quiet or as_json) as progress:
        findings = checking.check(
            dataset, test=plan.test, workers=workers, progress=lambda d, t: progress("reading", d, t)
        )
    if sheet is not None:
        contact_sheet(dataset, sheet, test=plan.test)
    if as_json:
        facts = dataclasses.asdict(findings) | {"split": split, "sound": findings.sound}
        typer.echo(json.dumps(facts, indent=2))
    else:
        _show(dataset, plan, findings, sheet)
    if not findings.sound:
        raise typer.Exit(1)


def _lenient(split: str) -> dict[str, Any]:
    """A check is to count the classes of one image, not to stumble over them."""
    from levelfield.data.splits import registry

    wanted = {"min_images": 1, "allow_test_feedback": True, "folds": 2}
    return {key: value for key, value in wanted.items() if key in registry[split].parameters}


def _show(dataset: Dataset, plan: SplitPlan, findings: Findings, sheet: Path | None) -> None:
    f = findings
    typer.echo(f"{dataset.name}: {f.images:,} images of {f.classes:,} classes")
    typer.echo(
        f"images per class: {f.smallest} to {f.largest}, median {f.median:g}; {f.single} classes have one"
    )
    typer.echo(
        f"{plan.name}: {len(plan.development):,} images for development, {len(plan.test):,} for the test"
    )
    for note in dataset.notes:
        typer.echo(f"note: {note}")
    _list("unreadable", [f"row {row}: {reason}" for row, reason in f.unreadable])
    for title, pairs in (
        ("same image in development and test", f.exact_leaks),
        ("nearly the same image in development and test", f.near_leaks),
        ("same image under two labels", f.conflicts),
    ):
        _list(title, [f"{_where(dataset, a)} = {_where(dataset, b)}" for a, b in pairs])
    typer.echo(f"copies of other images: {f.copies}")
    if sheet is not None:
        typer.echo(f"contact sheet: {sheet}")


def _list(title: str, lines: list[str]) -> None:
    typer.echo(f"{title}: {len(lines) or 'none'}")
    for line in lines[:_SHOWN]:
        typer.echo(f"  {line}")
    if len(lines) > _SHOWN:
        typer.echo(f"  ... and {len(lines) - _SHOWN} more (--json lists all)")


def _where(dataset: Dataset, row: int) -> str:
    paths = getattr(dataset.images, "paths", None)
    return str(paths[row]) if paths else f"row {row} ({dataset.class_names[dataset.labels[row]]})"


def parse_options(given: list[str]) -> dict[str, Any]:
    """``key=value`` pairs; values are read as YAML, so that numbers and true are what they look like."""
    import yaml

    options = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f'--set needs key=value, got "{text}"')
        options[key] = yaml.safe_load(value)
    return options


def _ask() -> None:
    import sys

    if not sys.stdin.isatty():
        raise UsageError("fetching needs your consent to the licence above; add --yes to give it")
    if not typer.confirm("Do you accept these terms?"):
        raise RunError("nothing was fetched")


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on stderr per file, by its name."""
    if quiet:
        yield lambda name, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"))
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:

        def update(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=None)
            progress.update(tasks[name], completed=done, total=total or None)

        yield update
