"""Metrics of random embeddings: Figure 2 of the reality check.

Random embeddings with random labels, for a growing number of classes. A metric that is meaningful by itself
stays near zero. NMI rises, because clusters of few samples look pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch

from levelfield.core.errors import UsageError
from levelfield.core.seeds import torch_generator
from levelfield.metrics import evaluate
from levelfield.records import write_json, write_text
from levelfield.reports import Table
from levelfield.reports.figures import Axis, Panel, PanelChart, Trace, write_chart
from levelfield.reports.table import TableCell

METRICS = ("precision_at_1", "r_precision", "map_at_r", "nmi", "ami", "f1")
TableRow: TypeAlias = dict[str, Any]
CLASSES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


def run_study(
    out: Path,
    *,
    seed: int = 0,
    samples: int = 10_000,
    dimensions: int = 64,
    classes: Sequence[int] = CLASSES,
    advance: Callable[[str], None] | None = None,
) -> list[TableRow]:
    """Compute the scores, and write ``metrics-on-random.md``, ``.json``, ``.png`` and ``.html`` into ``out``.

    Args:
        out: Output directory; created if missing.
        seed: Seed of embeddings, labels and k-means.
        samples: Number of embeddings.
        dimensions: Size of the embeddings.
        classes: Numbers of classes, one row of the table each.
        advance: Called with a description before each step.
    """
    if not classes or min(classes) < 2 or max(classes) > samples // 2:
        raise UsageError(
            f"metrics-on-random needs numbers of classes from 2 to half of the {samples} samples, "
            f"got {list(classes)}"
        )
    out.mkdir(parents=True, exist_ok=True)
    rows = torch.randn(samples, dimensions, generator=torch_generator("metrics-on-random", "rows", seed))
    table = []
    for count in classes:
        if advance is not None:
            advance(f"{count} classes")
        generator = torch_generator("metrics-on-random", "labels", seed, count)
        labels = torch.randint(count, (samples,), generator=generator)
        scores = evaluate(rows, labels, metrics=METRICS, seed=seed, cluster_seeds=1)
        table.append({"classes": count, **scores, "nmi_predicted": predicted_nmi(samples, count)})
    write_json(out / "metrics-on-random.json", table)
    write_text(out / "metrics-on-random.md", _as_markdown(table, samples, dimensions))
    title = f"{samples:,} random embeddings of dimension {dimensions}"
    write_chart(_chart(table, title), out, "metrics-on-random")
    return table


def predicted_nmi(samples: int, classes: int) -> float | None:
    """Return the NMI if no cluster has two samples of a class (Equation 7 of the paper); None if some must.

    Example:
        >>> round(100 * predicted_nmi(40_000, 10_000), 1)
        84.9
    """
    per_class = samples / classes
    return 1 - math.log(per_class) / math.log(classes) if per_class <= classes else None


def _as_markdown(table: Sequence[TableRow], samples: int, dimensions: int) -> str:
    lines = [
        "# Metrics on random embeddings",
        "",
        f"{samples:,} random embeddings of dimension {dimensions} with random labels, in percent. The last "
        "column is the prediction of the paper's equation 7, 1 - log S / log C for S samples per class.",
        "",
        scores_table(table).markdown(),
        "",
    ]
    return "\n".join(lines)


def scores_table(table: Sequence[TableRow]) -> Table:
    """Return a table with one row per number of classes and scores in percent."""
    names = list(table[0])
    rows = [[row[name] if name == "classes" else _percent(row[name]) for name in names] for row in table]
    return Table.from_rows(names, rows)


def _percent(value: float | None) -> TableCell:
    return TableCell("" if value is None else f"{100 * value:.2f}", value=value)


def _chart(table: Sequence[TableRow], title: str) -> PanelChart:
    """Return a chart with one line per metric over the number of classes."""
    across = tuple(float(row["classes"]) for row in table)
    traces = [
        Trace(name, across, tuple(100 * row[name] for row in table), "joined", color)
        for color, name in enumerate(METRICS)
    ]
    known = [row for row in table if row["nmi_predicted"] is not None]
    predicted = Trace(
        name="nmi, equation 7",
        x=tuple(float(row["classes"]) for row in known),
        y=tuple(100 * row["nmi_predicted"] for row in known),
        kind="dotted",
        color=len(METRICS),
    )
    panel = Panel(Axis("number of classes", log=True), (*traces, predicted))
    return PanelChart(title, Axis("score (%)"), (panel,))
