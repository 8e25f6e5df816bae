"""``levelfield published``: published numbers, filtered, recomputed and plotted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.cli._show import print_table

if TYPE_CHECKING:
    from levelfield.analysis.published import PublishedCell

app = typer.Typer(help="Published tables of papers: show, recompute and plot.", no_args_is_help=True)


@app.command("show")
def show(
    *,
    method: Annotated[str | None, typer.Option(help="Method, such as triplet.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Dataset: cub200, cars196 or sop.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric, such as map_at_r.")] = None,
    source: Annotated[str | None, typer.Option(help="Source, such as reality-check.")] = None,
    table: Annotated[str | None, typer.Option(help='Table of the source, such as "Table 3".')] = None,
    trunk: Annotated[str | None, typer.Option(help="Trunk: bninception, googlenet or resnet50.")] = None,
    setting: Annotated[str | None, typer.Option(help="Setting, such as separated or claimed.")] = None,
    size: Annotated[int | None, typer.Option(help="Embedding size.")] = None,
    flagged: Annotated[
        bool, typer.Option("--flagged", help="Only cells with a note, such as misprints.")
    ] = False,
    hyperparameters: Annotated[
        bool, typer.Option("--hyperparameters", help="Show hyperparameters instead of results.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show published numbers that match the filters. Without filters, list the sources."""
    from levelfield.analysis.published import optima, results

    shown: Sequence[str] = ("source", "title", "what", "results", "hyperparameters", "±")
    if hyperparameters:
        shown = ("source", "method", "variant", "dataset", "batch_size", "parameter", "value", "note")
        found = optima(source=source, method=method, dataset=dataset)
        rows = [asdict(row) for row in found if row.note or not flagged]
    elif not flagged and (source, table, method, dataset, trunk, size, setting, metric) == (None,) * 8:
        rows = _sources()
    else:
        shown = ("source", "table", "row", "variant", "dataset", "trunk", "embedding_size", "setting")
        shown = (*shown, "metric", "printed", "note")
        cells = results(
            source=source,
            table=table,
            method=method,
            dataset=dataset,
            trunk=trunk,
            embedding_size=size,
            setting=setting,
            metric=metric,
        )
        rows = [_flat(cell) for cell in cells if cell.note or not flagged]
    _print(rows, shown, as_csv=as_csv, as_json=as_json)


@app.command("tournament")
def tournament(
    cases: Annotated[
        bool, typer.Option("--cases", help="Also show the rank in each of the 12 tables.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Recompute the tournament of losses of the thesis, and compare it with the printed table."""
    from levelfield.analysis.published import thesis_tournament

    recomputed = thesis_tournament()
    if as_json:
        print(json.dumps(asdict(recomputed), indent=2))
        return
    _print(recomputed.rows())
    if cases:
        _print(recomputed.rank_rows())
    for line in recomputed.remarks():
        print(line)


@app.command("figures")
def figures(
    out: Annotated[Path, typer.Option("--out", "-o", help="Output directory.")] = Path("published-figures"),
    source: Annotated[
        str, typer.Option(help="Source: reality-check or reality-check-later.")
    ] = "reality-check-later",
    experiment: Annotated[
        list[Path] | None,
        typer.Option(
            help="Experiment directory whose records are the reality (repeatable, one per dataset)."
        ),
    ] = None,
) -> None:
    """Plot Figures 3 to 5 of the reality check, from published tables or own records, as PNG and HTML."""
    from levelfield.analysis.published import thesis_tournament
    from levelfield.reports.figures import write_chart, write_png
    from levelfield.reports.figures.published import published_charts
    from levelfield.reports.figures.rank_diagram import critical_difference_diagram

    if experiment:
        _own_figures(experiment, out)
        return
    for name, chart in published_charts(source).items():
        for path in write_chart(chart, out, name):
            print(path)
    diagram = out / "thesis-tournament.png"
    write_png(critical_difference_diagram(thesis_tournament().test), diagram)
    print(diagram)


def _own_figures(directories: Sequence[Path], out: Path) -> None:
    from levelfield.analysis import analyze
    from levelfield.reports.figures import write_chart
    from levelfield.reports.figures.own_reality import own_charts, without_year

    analyses = [analyze(directory) for directory in directories]
    charts = own_charts(analyses)
    for name, chart in charts.items():
        for path in write_chart(chart, out, name):
            print(path)
    for name, needs in (
        ("papers-versus-reality", "a dataset of the papers (cub200, cars196, sop) and a published method"),
        ("improvement-over-contrastive", "contrastive and another method"),
        ("improvement-over-triplet", "triplet and another method"),
    ):
        if name not in charts:
            print(f"not drawn: {name}; it needs {needs}")
    missing = without_year(analyses)
    if missing:
        print(f"not in papers-versus-reality: {', '.join(missing)}; no published table has the year")


def _sources() -> list[dict[str, Any]]:
    from levelfield.analysis.published import optima, results, sources

    return [
        {
            "source": source.name,
            "title": source.title,
            "what": source.what,
            "results": len(results(source=source.name)) if source.results else 0,
            "hyperparameters": len([row for row in optima() if row.source == source.name]),
            "±": source.spread,
        }
        for source in sources().values()
    ]


def _flat(cell: PublishedCell) -> dict[str, Any]:
    return asdict(cell) | {"variant": " ".join(f"{key}={value}" for key, value in cell.variant.items())}


def _print(
    rows: Sequence[dict[str, Any]], shown: Sequence[str] = (), *, as_csv: bool = False, as_json: bool = False
) -> None:
    """Print all columns as CSV or JSON, or the ``shown`` columns as a table; constants go to the title."""
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    from levelfield.reports import Table, TableCell, TableColumn, TableRow

    if as_csv:
        print(Table.from_records(rows).csv(), end="")
        return
    values = {name: {str(row[name]) for row in rows} for name in (shown or (rows[0] if rows else ()))}
    common = {name: next(iter(found)) for name, found in values.items() if len(found) == 1 and len(rows) > 1}
    facts = [f"{name} {value}" for name, value in common.items() if value not in ("", "None")]
    varying = [name for name in values if name not in common]
    title = ", ".join([f"{len(rows)} rows", *facts])
    columns = tuple(
        TableColumn(name, left=not any(isinstance(row[name], int | float) for row in rows))
        for name in varying
    )
    lines = [
        TableRow(tuple(TableCell("" if row[n] is None else str(row[n])) for n in varying)) for row in rows
    ]
    print_table(Table(columns, tuple(lines), title=title), width=160)
