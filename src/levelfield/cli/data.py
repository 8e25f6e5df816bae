"""``levelfield data``: fetch and check datasets."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.cli._progress import task_progress
from levelfield.core.errors import RunError, UsageError

if TYPE_CHECKING:
    from levelfield.data import Dataset
    from levelfield.data.check import DatasetFindings
    from levelfield.data.splits import SplitPlan

app = typer.Typer(help="Fetch, check and prepare datasets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)]
Quiet = Annotated[bool, typer.Option("--quiet", help="Hide progress.")]
_MAX_SHOWN = 10


@app.command()
def fetch(
    name: Name,
    *,
    root: Annotated[Path, typer.Option(help="Directory for datasets.")] = Path("data"),
    part: Annotated[
        list[str] | None,
        typer.Option(help="Fetch only this part of the dataset (repeatable).", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the license without a prompt.")] = False,
    quiet: Quiet = False,
) -> None:
    """Download a dataset from its official source. The same command continues a stopped download."""
    from levelfield.data import fetch as fetching

    typer.echo(fetching.describe_terms(name))
    if not yes:
        _confirm_terms()
    with task_progress(quiet=quiet) as progress:
        print_message = (lambda message: None) if quiet else (lambda message: typer.echo(message, err=True))
        fetching.fetch(
            name, root, parts=tuple(part or ()), message_callback=print_message, progress=progress.update
        )
    typer.echo(f"{name} is in {root}; check it with `levelfield data check {name} --root {root}`")


@app.command()
def check(
    name: Name,
    *,
    root: Annotated[str | None, typer.Option(help="Directory of the dataset.", show_default=False)] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the dataset, as key=value (repeatable).")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Split plan to check for duplicates between development and test.")
    ] = "class_disjoint",
    sheet: Annotated[Path | None, typer.Option(help="Write a contact sheet to this PNG file.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 1,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read every image, and find duplicates between development and test; exit code 1 on any problem."""
    import numpy as np

    from levelfield import data
    from levelfield.data import check as checking
    from levelfield.data.contact_sheet import write_contact_sheet
    from levelfield.data.splits import create

    options = parse_options(option or []) | ({} if root is None else {"root": str(root)})
    dataset = data.load(name, **options)
    plan = None  # a benchmark without training images has a test set only
    if dataset.is_test is None or not dataset.is_test.all():
        plan = create(
            split,
            dataset.labels,
            is_test=dataset.is_test,
            is_validation=dataset.is_validation,
            **_lenient_split_options(split),
        )
    test = np.arange(len(dataset)) if plan is None else plan.test
    with task_progress(quiet=quiet or as_json) as progress:
        findings = checking.check(dataset, test=test, workers=workers, progress=progress.callback("reading"))
    if sheet is not None:
        write_contact_sheet(dataset, sheet, test=test)
    if as_json:
        facts = dataclasses.asdict(findings) | {"split": split, "sound": findings.passed}
        typer.echo(json.dumps(facts, indent=2))
    else:
        _show(dataset, plan, findings, sheet)
    if not findings.passed:
        raise typer.Exit(1)


def _lenient_split_options(split: str) -> dict[str, Any]:
    """Return split options that accept classes with one image; the check counts these and does not fail."""
    from levelfield.data.splits import registry

    wanted = {"min_images": 1, "allow_test_feedback": True, "folds": 2}
    return {key: value for key, value in wanted.items() if key in registry[split].parameters}


def _show(dataset: Dataset, plan: SplitPlan | None, findings: DatasetFindings, sheet: Path | None) -> None:
    from levelfield.data.folder_scan import shown_names

    f = findings
    typer.echo(f"{dataset.name}: {f.images:,} images of {f.classes:,} classes")
    typer.echo(
        f"images per class: {f.smallest} to {f.largest}, median {f.median:g}; "
        f"{len(f.single)} classes have one"
    )
    if f.single:
        typer.echo(f"  {shown_names(f.single)}: add images, remove these classes, or set split.min_images=1")
    if plan is None:
        typer.echo("all images are for the test")
    else:
        development, test = len(plan.development), len(plan.test)
        typer.echo(f"{plan.name}: {development:,} images for development, {test:,} for the test")
    for note in dataset.notes:
        typer.echo(f"note: {note}")
    _list("unreadable", [f"row {row}: {reason}" for row, reason in f.unreadable])
    if f.unreadable:
        typer.echo("  fix: remove these files, or save them again as JPEG or PNG")
    for title, pairs in (
        ("same image in development and test", f.exact_leaks),
        ("nearly the same image in development and test", f.near_leaks),
        ("same image under two labels", f.conflicts),
    ):
        _list(title, [f"{_image_name(dataset, a)} = {_image_name(dataset, b)}" for a, b in pairs])
        if pairs:
            typer.echo("  fix: remove one of each pair")
    typer.echo(f"copies of other images: {f.copies}")
    if sheet is not None:
        typer.echo(f"contact sheet: {sheet}")


def _list(title: str, lines: list[str]) -> None:
    typer.echo(f"{title}: {len(lines) or 'none'}")
    for line in lines[:_MAX_SHOWN]:
        typer.echo(f"  {line}")
    if len(lines) > _MAX_SHOWN:
        typer.echo(f"  ... and {len(lines) - _MAX_SHOWN} more (--json lists all)")


def _image_name(dataset: Dataset, row: int) -> str:
    paths = getattr(dataset.images, "paths", None)
    return str(paths[row]) if paths else f"row {row} ({dataset.class_names[dataset.labels[row]]})"


def parse_options(given: list[str]) -> dict[str, Any]:
    """Parse ``key=value`` pairs; values are parsed as YAML."""
    from levelfield.config import parse_yaml

    options = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f'--set needs key=value, got "{text}"')
        options[key] = parse_yaml(value, origin=f'--set "{text}"')
    return options


def _confirm_terms() -> None:
    import sys

    if not sys.stdin.isatty():
        raise UsageError("fetching needs your consent to the license above; add --yes to accept it")
    if not typer.confirm("Do you accept these terms?"):
        raise RunError("nothing was fetched; accept the terms to fetch the dataset")
