"""Sweeps over one factor: embedding size, batch size, samples of a class."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from levelfield.reports import Table

WORDS = {
    "head.size": "embedding size",
    "batch.size": "batch size",
    "batch.samples_per_class": "samples per class in a batch",
}


@dataclass(frozen=True)
class Sweep:
    """MAP@R of one model over the values of one factor, in percent.

    Attributes:
        factor: Path of the factor in the experiment file.
        values: Values of the factor.
        reruns: Number of reruns.
        table: One row per value, one column per method.
        within: Best minus worst score over the values, per method.
        between: Best minus worst score over the methods, per value.
        change: Score at the last value minus that at the first, per method.
    """

    factor: str
    values: list[str]
    reruns: str
    table: str
    within: list[float]
    between: list[float]
    change: list[float]

    @property
    def title(self) -> str:
        """Factor and its ends in words."""
        return f"{WORDS.get(self.factor, self.factor)} {self.values[-1]} instead of {self.values[0]}"


def read_sweeps(file: Path) -> list[Sweep]:
    """Return one sweep per factor; empty if the file does not exist."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["metric"] == "map_at_r"]
    factors = dict.fromkeys(row["factor"] for row in rows)
    return [_sweep(factor, [row for row in rows if row["factor"] == factor]) for factor in factors]


def _sweep(factor: str, rows: list[dict[str, str]]) -> Sweep:
    values, methods = (list(dict.fromkeys(row[key] for row in rows)) for key in ("value", "method"))
    means = {(row["value"], row["method"]): 100 * float(row["mean"]) for row in rows}
    half = {(row["value"], row["method"]): 100 * float(row["half_width_95"] or "nan") for row in rows}
    body = [[v, *(f"{means[v, m]:.2f} ± {half[v, m]:.2f}" for m in methods)] for v in values]
    return Sweep(
        factor=factor,
        values=values,
        reruns=rows[0]["reruns"],
        table=Table.from_rows([factor, *methods], body).markdown(),
        within=[_spread([means[value, method] for value in values]) for method in methods],
        between=[_spread([means[value, method] for method in methods]) for value in values],
        change=[means[values[-1], method] - means[values[0], method] for method in methods],
    )


def _spread(values: list[float]) -> float:
    return max(values) - min(values)
