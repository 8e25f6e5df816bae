"""Tables and text of a comparison of models."""

from __future__ import annotations

from levelfield.analysis import ModelComparison
from levelfield.reports._markdown import escape_markdown
from levelfield.reports.table import Emphasis, Table, TableCell, TableColumn, TableEntry, TableRow, score_cell

TERMINAL_ROWS = 5  # classes and queries in the terminal


def evaluation_table(comparison: ModelComparison) -> Table:
    """Return the scores of all models, best first, with intervals for comparison and the verdict.

    The interval of a single model is that for other classes of this kind.
    """
    alone = len(comparison.models) == 1
    several = any(own.seeds > 1 for own in comparison.models.values())
    directed = comparison.metric_info.higher_is_better is not None
    leaders = comparison.leaders(comparison.metric)
    columns = [TableColumn("model", left=True)]
    columns += [TableColumn(info.axis) for info in comparison.metric_infos.values()]
    columns += [TableColumn("seeds")] if several else []
    columns += [TableColumn("verdict", left=True)] if directed and not alone else []
    best = {metric: _best(comparison, metric) for metric in comparison.metric_infos}
    rows = []
    for name in comparison.means:
        cells = [TableCell(name)]
        for metric, info in comparison.metric_infos.items():
            interval = comparison.interval_alone(name, metric) if alone else comparison.interval(name, metric)
            emphasis: Emphasis = (
                "best" if name == best[metric] else "alike" if name in comparison.leaders(metric) else ""
            )
            cells.append(score_cell(interval, info, "" if alone else emphasis))
        cells += [TableCell(str(comparison.models[name].seeds))] if several else []
        if directed and not alone:
            cells.append(
                TableCell("worse" if name not in leaders else "best" if len(leaders) == 1 else "tied")
            )
        rows.append(TableRow(tuple(cells)))
    return Table(tuple(columns), tuple(rows))


def _best(comparison: ModelComparison, metric: str) -> str | None:
    judgment = comparison.judgments.get(metric)
    if judgment is None or comparison.metric_infos[metric].higher_is_better is None:
        return None
    return judgment.estimates[0].method


def evaluation_caption(comparison: ModelComparison) -> str:
    """Return one line on what the intervals of the table mean."""
    chance = "classes and seeds count" if comparison.judgment.reruns > 1 else "classes count"
    if comparison.classes is None:
        chance = "queries count"
    if len(comparison.models) == 1:
        return f"±: 95% interval for other data of this kind ({chance} as chance)."
    return (
        f"±: two models differ if their intervals do not overlap (95% for all pairs, {chance} as chance). "
        f"Bold: best mean. Verdict on {comparison.metric_info.label}."
    )


def evaluation_classes_table(
    comparison: ModelComparison, first: str, second: str, *, limit: int | None = 10
) -> Table | None:
    """Return the classes on which two models differ most; None if they differ on none."""
    found = comparison.class_differences(first, second, limit=limit)
    shown = comparison.metric_info.shown
    rows: list[list[TableEntry]] = [
        [
            each.name,
            each.queries,
            TableCell(shown(each.first), value=each.first),
            TableCell(shown(each.second), value=each.second),
            TableCell(shown(each.difference, "+"), value=each.difference),
        ]
        for each in found
    ]
    title = f"Classes that differ most, {comparison.metric_info.axis}"
    heads = ["class", "queries", first, second, "difference"]
    return Table.from_rows(heads, rows, title=title) if rows else None


def evaluation_queries_table(
    comparison: ModelComparison, first: str, second: str, *, limit: int | None = 10
) -> Table | None:
    """Return the queries on which two models differ most; None if they differ on none."""
    found = comparison.query_differences(first, second, limit=limit)
    shown = comparison.metric_info.shown
    rows: list[list[TableEntry]] = [
        [
            each.name or f"row {each.row}",
            each.class_name,
            TableCell(shown(each.first), value=each.first),
            TableCell(shown(each.second), value=each.second),
            TableCell(shown(each.difference, "+"), value=each.difference),
        ]
        for each in found
    ]
    title = f"Queries that differ most, {comparison.metric_info.axis}"
    heads = ["query", "class", first, second, "difference"]
    return Table.from_rows(heads, rows, title=title) if rows else None


def visible_sentence(comparison: ModelComparison) -> str:
    """Return a sentence on the smallest difference that this test set can show; "" if nothing was tested."""
    visible, detectable = comparison.conclusion.visible, comparison.detectable
    if visible is None or detectable is None:
        return ""
    info = comparison.metric_info
    unit = " points" if info.unit == "percent" else ""
    shown = [f"{info.scale * value:.{1 if unit else 4}f}{unit}" for value in (visible, detectable)]
    return (
        f"This test set shows an observed difference from about {shown[0]} of {info.label}; "
        f"a true one of {shown[1]} is found 4 times in 5."
    )


def evaluation_text(comparison: ModelComparison) -> str:
    """Return the comparison as Markdown: verdict, scores, pairs, and what differs most."""
    lines = [f"**{escape_markdown(comparison.conclusion.text)}**", ""]
    lines += [evaluation_table(comparison).markdown(), "", evaluation_caption(comparison), ""]
    if comparison.pairs:
        lines += [
            "## Which models differ",
            "",
            *(f"- {escape_markdown(pair.sentence)}" for pair in comparison.pairs),
        ]
    lines += [
        f"- {escape_markdown(line)}" for line in (visible_sentence(comparison), *comparison.caveats) if line
    ]
    if comparison.closest is not None:
        first, second = comparison.closest
        for build in (evaluation_classes_table, evaluation_queries_table):
            table = build(comparison, first, second, limit=TERMINAL_ROWS)
            lines += ["", f"## {table.title}", "", table.markdown()] if table else []
    return "\n".join(lines).rstrip() + "\n"
