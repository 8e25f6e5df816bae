"""``levelfield report``: write an experiment's report again from its records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[
        Path, typer.Argument(help="The folder that `levelfield run` wrote.", show_default=False)
    ],
    figures: Annotated[
        bool, typer.Option("--figures", help="Also write every figure as PNG and interactive page.")
    ] = False,
    assets: Annotated[
        bool, typer.Option("--assets", help="Keep style and scripts beside the page instead of in it.")
    ] = False,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="A file of yours that registers figures (repeatable).")
    ] = None,
) -> None:
    """Write the report of a finished or unfinished experiment and show its table."""
    from levelfield.cli._show import show_table
    from levelfield.compare import weigh
    from levelfield.registry import load_plugin_file
    from levelfield.reports import write_figures, write_report

    for file in plugin or ():
        load_plugin_file(file)
    evidence = weigh(folder)
    page = write_report(folder, evidence=evidence, assets=assets)
    show_table(evidence)
    print(f"Report: {page}")
    if figures:
        written = write_figures(evidence)
        print(f"Figures: {len(written)} files in {page.parent / 'figures'}")
