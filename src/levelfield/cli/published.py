"""``levelfield published``: the papers' numbers, filtered, recomputed and drawn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.cli._show import print_table

if TYPE_CHECKING:
    from levelfield.published import Cell

app = typer.Typer(help="The papers' tables: show, recompute and draw them.", no_args_is_help=True)


@app.command("show")
def show(
    *,
    method: Annotated[str | None, typer.Option(help="Such as triplet.")] = None,
    dataset: Annotated[str | None, typer.Option(help="cub200, cars196 or sop.")] = None,
    metric: Annotated[str | None, typer.Option(help="Such as map_at_r.")] = None,
    source: Annotated[str | None, typer.Option(help="Such as reality-check.")] = None,
    table: Annotated[str | None, typer.Option(help='As the source calls it, such as "Table 3".')] = None,
    trunk: Annotated[str | None, typer.Option(help="bninception, googlenet or resnet50.")] = None,
    setting: Annotated[str | None, typer.Option(help="Such as separated, or claimed.")] = None,
    size: Annotated[int | None, typer.Option(help="Embedding size.")] = None,
    flagged: Annotated[bool, typer.Option("--flagged", help="Only misprinted or odd cells.")] = False,
    hyperparameters: Annotated[
        bool, typer.Option("--hyperparameters", help="Published hyperparameters instead of results.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Published numbers that fit the filters; without any, the sources."""
    from levelfield.published import optima, results

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
    cases: Annotated[bool, typer.Option("--cases", help="Show the rank in each of the 12 tables.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """The thesis' tournament of losses, recomputed from its own tables, beside the table it prints."""
    from levelfield.published import thesis_tournament

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
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("published-figures"),
    source: Annotated[
        str, typer.Option(help="reality-check or reality-check-later.")
    ] = "reality-check-later",
) -> None:
    """Draw the reality check's Figures 3 to 5 from published tables, as PNG and interactive pages."""
    from levelfield.published import thesis_tournament
    from levelfield.reports.figures import write_chart, write_png
    from levelfield.reports.figures.published import published_charts
    from levelfield.stats import critical_difference_diagram

    for name, chart in published_charts(source).items():
        for path in write_chart(chart, out, name):
            print(path)
    diagram = out / "thesis-tournament.png"
    write_png(critical_difference_diagram(thesis_tournament().test), diagram)
    print(diagram)


def _sources() -> list[dict[str, Any]]:
    from levelfield.published import optima, results, sources

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


def _flat(cell: Cell) -> dict[str, Any]:
    return asdict(cell) | {"variant": " ".join(f"{key}={value}" for key, value in cell.variant.items())}


def _print(
    rows: Sequence[dict[str, Any]], shown: Sequence[str] = (), *, as_csv: bool = False, as_json: bool = False
) -> None:
    """All columns for machines; for people those ``shown``, what is the same in every row said once."""
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    from levelfield.reports import Cell, Column, Row, Table

    if as_csv:
        print(Table.of_records(rows).csv(), end="")
        return
    values = {name: {str(row[name]) for row in rows} for name in (shown or (rows[0] if rows else ()))}
    common = {name: next(iter(found)) for name, found in values.items() if len(found) == 1 and len(rows) > 1}
    facts = [f"{name} {value}" for name, value in common.items() if value not in ("", "None")]
    heads = [name for name in values if name not in common]
    title = ", ".join([f"{len(rows)} rows", *facts])
    columns = tuple(
        Column(name, left=not any(isinstance(row[name], int | float) for row in rows)) for name in heads
    )
    lines = [Row(tuple(Cell("" if row[n] is None else str(row[n])) for n in heads)) for row in rows]
    print_table(Table(columns, tuple(lines), title=title), width=160)
