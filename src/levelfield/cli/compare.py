"""``levelfield compare``: which methods differ, within experiments, across them, and from the papers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def compare(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders that `levelfield run` wrote.", show_default=False)
    ],
    *,
    metric: Annotated[str | None, typer.Option(help="That of the selection by default.")] = None,
    setting: Annotated[str, typer.Option(help="concatenated or separated.")] = "concatenated",
    against: Annotated[
        str | None, typer.Option(help='Compare only with this method; "best": with the best mean.')
    ] = None,
    equivalence: Annotated[
        float | None,
        typer.Option(
            help="The largest difference that does not matter, as tables print it: 0.5 is half a point, and "
            "the default of measures in percent; 0 calls nothing equivalent."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the text, tables and the rank diagram.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON and nothing else.")] = False,
) -> None:
    """Say which methods differ: within an experiment, over several, and beside published numbers."""
    from rich.console import Console
    from rich.markdown import Markdown

    from levelfield.compare import compare_across, focus, weigh
    from levelfield.reports import comparison_json, comparison_markdown, write_comparison

    experiments = [
        weigh(folder, setting=setting, metric=metric, equivalence=equivalence) for folder in folders
    ]
    if against is not None:
        experiments = [focus(evidence, against) for evidence in experiments]
    across = compare_across(experiments) if len(experiments) > 1 else None
    text = comparison_markdown(experiments, across)
    written = [] if out is None else write_comparison(out, experiments, across, text)
    if as_json:
        print(json.dumps(comparison_json(experiments, across), indent=2))
        return
    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text, end="")
    for path in written:
        print(path)
