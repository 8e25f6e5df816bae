"""``levelfield report``: write an experiment's report from its records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    directory: Annotated[Path, typer.Argument(help="Experiment directory.", show_default=False)],
    *,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also write every figure as PNG and HTML.")
    ] = False,
    assets: Annotated[
        bool, typer.Option("--assets", help="Write style and scripts as separate files instead of inline.")
    ] = False,
    simulate: Annotated[
        int,
        typer.Option(
            min=0, help="Simulated records like this one, for the rate of false alarms; 0 skips them."
        ),
    ] = 200,
    file_order: Annotated[
        bool, typer.Option("--file-order", help="Print methods in the order of the experiment file.")
    ] = False,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="Plug-in file that registers figures (repeatable).")
    ] = None,
) -> None:
    """Write the report of a finished or unfinished experiment and print table and verdict."""
    from levelfield.analysis import analyze
    from levelfield.cli._show import show_analysis
    from levelfield.core.registry import load_plugin_file
    from levelfield.reports import quote_alarm_rate, write_figures, write_report

    for file in plugin or ():
        load_plugin_file(file)
    analysis = analyze(directory)
    rate = quote_alarm_rate(analysis, simulations=simulate)
    page = write_report(directory, analysis=analysis, assets=assets)
    lines = [] if rate is None else [rate.sentence]
    lines.append(f"Report: {page}")
    if figures:
        written = write_figures(analysis)
        lines.append(f"Figures: {len(written)} files in {page.parent / 'figures'}")
    show_analysis(analysis, lines=lines, file_order=file_order)
