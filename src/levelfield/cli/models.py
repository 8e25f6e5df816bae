"""``levelfield models``: pretrained models on your own images, by quality and cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli._progress import task_progress
from levelfield.core.errors import printable


def models(  # noqa: PLR0917 - a command's options are its parameters
    photos: Annotated[
        str, typer.Argument(help="Folder with one subfolder per class, CSV file, or name of a dataset.")
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--models",
            help="Trunks as NAME or NAME=WEIGHTS, model directories, or FILE.py:FUNCTION; separated by "
            "commas, or repeated. Defaults to the suggested models that are on this machine.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="Metric (repeatable). The verdict is on MAP@R, or on the first."),
    ] = None,
    root: Annotated[str | None, typer.Option(help="Directory of the dataset.", show_default=False)] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the dataset, as key=value (repeatable).")
    ] = None,
    all_classes: Annotated[
        bool, typer.Option("--all-classes", help="Score all classes, not only those of the test.")
    ] = False,
    size: Annotated[
        int | None, typer.Option(min=1, help="Side of the input, in pixels. Defaults to that of each model.")
    ] = None,
    device: Annotated[str, typer.Option(help="Device: auto, cpu or cuda.")] = "auto",
    codes: Annotated[bool, typer.Option(help="Score PCA, float16, int8 and binary codes.")] = True,
    equivalence: Annotated[
        float | None,
        typer.Option(help="Largest difference that does not matter, in table units. Defaults to 0.5 points."),
    ] = None,
    train_heads: Annotated[
        Path | None,
        typer.Option(
            help="Train a head on each model by the preset laptop; experiments go to this directory."
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each search for --train-heads.")] = 5,
    seconds: Annotated[
        float, typer.Option(min=0, help="Shortest time of a round of the speed measurement.")
    ] = 1.0,
    report: Annotated[Path | None, typer.Option(help="Write the comparison to this HTML page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress.")] = False,
) -> None:
    """Compare pretrained models on your own images: quality, speed, size. Nothing is trained."""
    from levelfield.api import choose_model
    from levelfield.cli.data import parse_options
    from levelfield.reports import choice_text

    names = [name.strip() for text in model or [] for name in text.split(",") if name.strip()]
    with task_progress(quiet=quiet or as_json) as progress:
        found = choose_model(
            photos,
            names,
            metrics=metric or (),
            options={**parse_options(option or []), **({} if root is None else {"root": root})},
            all_classes=all_classes,
            size=size,
            device=device,
            codes=codes,
            equivalence=equivalence,
            train_heads=train_heads,
            trials=trials,
            seconds=seconds,
            progress=progress.callback,
        )
    if report is not None:
        found.write_report(report)
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
    else:
        _print(choice_text(found.choice), found.verdict, report)
    for reason in found.left_out.values():
        typer.echo(f"left out: {reason}", err=True)
    if found.left_out:
        raise typer.Exit(1)


def _print(text: str, verdict: str, report: Path | None) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
        console.print(printable(verdict), style="bold", highlight=False, markup=False)
    else:
        print(text, end="")
    if report is not None:
        print(f"\n{report}")
