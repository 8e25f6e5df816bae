"""Page of a comparison of models, from the pieces of an experiment's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

import levelfield
from levelfield.analysis import ModelComparison
from levelfield.records import GalleryQuery
from levelfield.reports._evaluation_table import (
    evaluation_caption,
    evaluation_classes_table,
    evaluation_queries_table,
    evaluation_table,
    evaluation_text,
    visible_sentence,
)
from levelfield.reports._figures import draw_groups
from levelfield.reports.figures.charts import GRAY, IntervalChart, IntervalRow
from levelfield.reports.pages import data_block, embed_chart, embed_figure, encode_images, render_page

COLORED, FEW, SHOWN = 8, 6, 25


@dataclass(frozen=True)
class EvaluationGallery:
    """Queries with the nearest items of each model.

    Attributes:
        queries: Queries to show.
        neighbors: Rows of the nearest items with their similarities, nearest first, by model and query.
        labels: Class of each item, by row.
        images: Thumbnails as WebP, by row.
        relevant: Rows of the relevant items of each query; None if classes decide.
        ignored: Rows of the ignored items of each query, where lists decide.
    """

    queries: Sequence[GalleryQuery]
    neighbors: Mapping[str, Mapping[int, Sequence[tuple[int, float]]]]
    labels: Sequence[str]
    images: Mapping[int, bytes] = field(default_factory=dict)
    relevant: Mapping[int, Sequence[int]] | None = None
    ignored: Mapping[int, Sequence[int]] = field(default_factory=dict)


def render_evaluation_page(
    comparison: ModelComparison,
    *,
    title: str = "Comparison of models",
    gallery: EvaluationGallery | None = None,
    sections: Sequence[tuple[str, str, Markup]] = (),
) -> str:
    """Return the page of a comparison as HTML. The page is one file and loads nothing from other hosts.

    Args:
        comparison: Comparison of the models.
        title: Heading of the page.
        gallery: Queries with their nearest images; None for a page without images.
        sections: Further sections after the scores: id, heading and content.
    """
    names = list(comparison.means)
    tables = [
        None if comparison.closest is None else build(comparison, *comparison.closest, limit=SHOWN)
        for build in (evaluation_classes_table, evaluation_queries_table)
    ]
    scored = comparison.scored
    what = f"{int(scored.sum()):,} queries" if len(scored) else "no values per query"
    if comparison.judgment.classes and comparison.classes is not None:
        what += f" of {comparison.judgment.classes:,} classes"
    return render_page(
        "evaluation.html",
        title=title,
        lead=f"{', '.join(names)}: {what}, compared with levelfield {levelfield.__version__}.",
        conclusion=comparison.conclusion,
        how_sure=visible_sentence(comparison),
        intervals=embed_chart(interval_chart(comparison)),
        scores=evaluation_table(comparison),
        caption=evaluation_caption(comparison),
        copies=_copies(comparison),
        sections=sections,
        differences=_differences(comparison),
        gallery=None if gallery is None else _gallery(comparison, gallery),
        classes=tables[0],
        queries=tables[1],
    )


def interval_chart(comparison: ModelComparison) -> IntervalChart:
    """Return dots with intervals of the main metric, best model first; disjoint intervals differ."""
    info = comparison.metric_info
    rows = []
    for number, name in enumerate(comparison.means):
        interval = (
            comparison.interval_alone(name, info.name)
            if len(comparison.models) == 1
            else comparison.interval(name, info.name)
        )
        rows.append(
            IntervalRow(
                name,
                info.scale * interval.mean,
                info.scale * interval.half_width if interval.n > 1 else None,
                info.shown(interval.mean),
                number if number < COLORED else GRAY,
                "",
            )
        )
    return IntervalChart(
        f"{info.axis}: models differ if their intervals do not overlap", info.axis, tuple(rows)
    )


def _differences(comparison: ModelComparison) -> dict[str, Any]:
    best = next(iter(comparison.means))
    info = comparison.metric_info
    diagram = draw_groups(
        comparison.means,
        comparison.groups,
        info,
        title=f"Mean {info.axis}; a bar joins models that do not differ",
    )
    return {
        "metric": info.label,
        "points": info.unit == "percent",
        "best": [(pair.verdict, pair.sentence) for pair in comparison.pairs if pair.first == best],
        "others": [(pair.verdict, pair.sentence) for pair in comparison.pairs if pair.first != best],
        "diagram": None if diagram is None else embed_figure(diagram),
        "caveats": list(comparison.caveats),
    }


def _copies(comparison: ModelComparison) -> list[tuple[str, str, Markup]]:
    """Return label, id and hidden text of each copy button."""
    table = evaluation_table(comparison)
    texts = {
        "Copy as LaTeX": table.latex(),
        "Copy as Markdown": evaluation_text(comparison),
        "Copy as CSV": table.csv(),
    }
    return [
        (label, f"copy-{number}", data_block(text, name=f"copy-{number}"))
        for number, (label, text) in enumerate(texts.items())
    ]


def _gallery(comparison: ModelComparison, gallery: EvaluationGallery) -> dict[str, Any]:
    """Return the template values of the gallery; classes are numbered for the script of the page."""
    used = {query.row for query in gallery.queries}
    used |= {row for found in gallery.neighbors.values() for line in found.values() for row, _ in line}
    numbers = {name: number for number, name in enumerate(sorted({gallery.labels[row] for row in used}))}
    content = {
        "queries": [query.model_dump(mode="json") for query in gallery.queries],
        "methods": {name: dict(found) for name, found in gallery.neighbors.items()},
        "few": list(gallery.neighbors)[:3],
        "labels": {row: numbers[gallery.labels[row]] for row in sorted(used)},
        "names": {number: name for name, number in numbers.items()},
    }
    if gallery.relevant is not None:
        shown = {"relevant": gallery.relevant, "ignored": gallery.ignored}
        content |= {
            kind: {row: [item for item in items if item in used] for row, items in lists.items()}
            for kind, lists in shown.items()
        }
    images = {str(row): content for row, content in gallery.images.items()}
    return {
        "methods": list(gallery.neighbors),
        "few": len(gallery.neighbors) > FEW,
        "metric": comparison.metric_info.label,
        "listed": gallery.relevant is not None,
        "data": data_block(content),
        "images": data_block(encode_images(images), name="images"),
        "kilobytes": round(sum(map(len, images.values())) / 1000),
        "count": len(images),
    }
