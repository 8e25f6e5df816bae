"""``levelfield compare``: differences between methods, within and across experiments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def compare(
    directories: Annotated[list[Path], typer.Argument(help="Experiment directories.", show_default=False)],
    *,
    metric: Annotated[str | None, typer.Option(help="Metric. Defaults to the selection metric.")] = None,
    setting: Annotated[
        str, typer.Option(help="Embedding setting: concatenated or separated.")
    ] = "concatenated",
    against: Annotated[
        str | None,
        typer.Option(help='Compare only with this method; "best" is the method with the best mean.'),
    ] = None,
    equivalence: Annotated[
        float | None,
        typer.Option(
            help="Largest difference that counts as equivalent, in table units. Defaults to 0.5 points for "
            "metrics in percent; 0 disables equivalence."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Directory for the text, tables and rank diagram.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Compare methods within an experiment, across experiments and with published numbers."""
    from rich.console import Console
    from rich.markdown import Markdown

    from levelfield import api
    from levelfield.reports import comparison_json, comparison_markdown, write_comparison

    found = api.compare(
        *directories, setting=setting, metric=metric, equivalence=equivalence, against=against
    )
    if isinstance(found, api.ExperimentsResult):
        experiments, overall = found.analyses, found.overall
    else:
        experiments, overall = [found.analysis], None
    text = comparison_markdown(experiments, overall)
    written = [] if out is None else write_comparison(out, experiments, overall, text)
    if as_json:
        print(json.dumps(comparison_json(experiments, overall), indent=2))
        return
    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text, end="")
    for path in written:
        print(path)
    if overall is None and console.is_terminal:  # the end of a long text is what a reader sees
        console.print(found.verdict, style="bold", highlight=False, markup=False)
