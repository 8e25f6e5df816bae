"""Tables, text and page of a choice between models: quality, cost, smaller codes, trained heads."""

from __future__ import annotations

from markupsafe import Markup

from levelfield.analysis import CodeScore, ModelChoice, ModelCost
from levelfield.reports._evaluation_page import COLORED, render_evaluation_page
from levelfield.reports._evaluation_table import evaluation_caption, evaluation_table, visible_sentence
from levelfield.reports._markdown import escape_markdown
from levelfield.reports.figures.charts import GRAY, Axis, Panel, PanelChart, Trace
from levelfield.reports.pages import embed_chart
from levelfield.reports.table import Table, TableCell, TableColumn, TableRow

COST_CAPTION = (
    "images/s: the network alone on this machine, with pixels in memory, all cores, median of three rounds. "
    "MB: the weights in memory. kB: an embedding in float32. "
    "best trade: no other model is both better and faster."
)
CODES_CAPTION = (
    "PCA axes, and ranges and thresholds of codes, are from images of other classes where there are any. "
    "In brackets: the difference to the full embeddings. *: worse for sure."
)
HEADS_CAPTION = (
    "Each model as a frozen trunk with a linear head of 128 numbers, by the protocol of the preset laptop. "
    "Features before training are reduced to the same size by PCA."
)


def choice_table(choice: ModelChoice) -> Table:
    """Return scores and costs of all models, best first."""
    scores = evaluation_table(choice.comparison)
    heads = ("images/s", "pixels", "parameters (M)", "MB", "numbers", "kB", "best trade")
    rows = []
    for name, row in zip(choice.comparison.means, scores.rows, strict=True):
        cost = choice.costs[name]
        rows.append(TableRow((*row.cells, *_cost_cells(cost), _trade(choice, name))))
    columns = (*scores.columns, *(TableColumn(head) for head in heads))
    return Table(columns, tuple(rows), title="Quality and cost")


def _trade(choice: ModelChoice, name: str) -> TableCell:
    return TableCell("yes" if name in choice.undominated else "")


def _cost_cells(cost: ModelCost) -> list[TableCell]:
    rate = cost.images_per_second
    millions = "-" if cost.parameters is None else f"{cost.parameters / 1e6:.1f}"
    return [
        TableCell(f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}", value=rate),
        TableCell(str(cost.image_size)),
        TableCell(millions, value=cost.parameters),
        TableCell("-" if cost.megabytes is None else f"{cost.megabytes:.0f}", value=cost.megabytes),
        TableCell(str(cost.size)),
        TableCell(f"{4 * cost.size / 1000:.1f}", value=4 * cost.size / 1000),
    ]


def codes_table(choice: ModelChoice) -> Table | None:
    """Return the scores of all models in all codes; None if none were computed."""
    names = list(dict.fromkeys(code.name for found in choice.codes.values() for code in found))
    if not names:
        return None
    rows = []
    for model in choice.comparison.means:
        found = {code.name: code for code in choice.codes.get(model, ())}
        cells = [_code_cell(found[name], choice) if name in found else TableCell("-") for name in names]
        rows.append(TableRow((TableCell(model), *cells)))
    columns = (TableColumn("model", left=True), *map(TableColumn, names))
    info = choice.comparison.metric_info
    return Table(columns, tuple(rows), title=f"What smaller codes keep, {info.axis}")


def _code_cell(code: CodeScore, choice: ModelChoice) -> TableCell:
    shown = choice.comparison.metric_info.shown
    if not code.verdict:
        return TableCell(f"{shown(code.score)}, {code.bytes} B", value=code.score)
    mark = "*" if code.verdict == "worse" else ""
    return TableCell(
        f"{shown(code.score)} ({shown(code.difference, '+')}{mark}), {code.bytes} B", value=code.score
    )


def heads_table(choice: ModelChoice) -> Table | None:
    """Return what a trained head brings to each model; None if none was trained."""
    if not choice.heads:
        return None
    info = choice.comparison.metric_info
    rows: list[list[str | TableCell]] = [
        [
            name,
            TableCell(info.shown(head.pretrained), value=head.pretrained),
            TableCell(info.shown(head.trained), value=head.trained),
            TableCell(info.shown(head.trained - head.pretrained, "+"), value=head.trained - head.pretrained),
            head.verdict,
            head.method,
            head.directory,
        ]
        for name, head in sorted(choice.heads.items(), key=lambda item: -item[1].trained)
    ]
    columns = ["model", "before", "trained", "gain", "verdict", "method", "experiment"]
    return Table.from_rows(columns, rows, title=f"With a trained head, {info.axis}")


def choice_chart(choice: ModelChoice) -> PanelChart:
    """Return quality against speed; the models that no other beats are joined by a line."""
    info = choice.comparison.metric_info
    means = {name: info.scale * mean for name, mean in choice.comparison.means.items()}
    speed = {name: choice.costs[name].images_per_second for name in means}
    front = sorted(choice.undominated, key=lambda name: speed[name])
    traces = [
        Trace(
            "not beaten in both",
            tuple(speed[name] for name in front),
            tuple(means[name] for name in front),
            kind="dotted",
            color=GRAY,
        )
    ]
    for number, name in enumerate(means):
        traces.append(
            Trace(
                name,
                (speed[name],),
                (means[name],),
                color=number if number < COLORED else GRAY,
                hover_texts=(
                    f"{name}: {info.shown(choice.comparison.means[name])}, {speed[name]:.0f} images/s",
                ),
                marker="dot" if name in front else "ring",
            )
        )
    title = f"{info.axis} against speed; up and to the right is better"
    return PanelChart(title, Axis(info.axis), (Panel(Axis("images per second", log=True), tuple(traces)),))


def choice_text(choice: ModelChoice) -> str:
    """Return the choice as Markdown: the sentences, then the tables."""
    comparison = choice.comparison
    lines = [f"**{escape_markdown(choice.text)}**", ""]
    for table, caption in _tables(choice):
        lines += [f"## {table.title}", "", table.markdown(), "", caption, ""]
    if comparison.pairs:
        lines += [
            "## Which models differ",
            "",
            *(f"- {escape_markdown(pair.sentence)}" for pair in comparison.pairs),
        ]
    notes = (visible_sentence(comparison), *comparison.notes, *comparison.caveats)
    lines += [f"- {escape_markdown(line)}" for line in notes if line]
    return "\n".join(lines).rstrip() + "\n"


def _tables(choice: ModelChoice) -> list[tuple[Table, str]]:
    first = f"{evaluation_caption(choice.comparison)} {COST_CAPTION}"
    found = [(choice_table(choice), first)]
    for table, caption in ((codes_table(choice), CODES_CAPTION), (heads_table(choice), HEADS_CAPTION)):
        if table is not None:
            found.append((table, caption))
    return found


def render_choice_page(choice: ModelChoice, *, title: str = "Which model for these images?") -> str:
    """Return the page of a choice as HTML. The page is one file and loads nothing from other hosts."""
    (table, _), *others = _tables(choice)
    card = '<div class="card" tabindex="0" role="region" aria-label="{}">{}</div>'
    under = '<p class="under">{}</p>'
    chart = Markup(card).format("Quality against speed", embed_chart(choice_chart(choice)))
    costs = Markup(card).format("Costs", Markup(table.html(sortable=True)))
    first = Markup("<p><b>{}</b></p>").format(choice.text)
    sections = [("cost", "Quality and cost", first + chart + costs + Markup(under).format(COST_CAPTION))]
    for number, (table, caption) in enumerate(others):
        shown = Markup(card).format(table.title, Markup(table.html(sortable=True)))
        sections.append((f"more-{number}", table.title, shown + Markup(under).format(caption)))
    return render_evaluation_page(choice.comparison, title=title, sections=sections)
