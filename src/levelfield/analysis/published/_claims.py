"""Scores that papers claim and scores that fair comparisons measure, as data for figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from levelfield.analysis.published._cells import PublishedCell, results
from levelfield.analysis.published._tables import read_table

# Proposed method of each paper in the supplement, by the beginning of its title there.
PAPERS = {
    "Deep Metric Learning via Lifted Structured": "lifted_structure",
    "Sampling Matters": "margin",
    "Attention-based Ensemble": "abe",
    "Deep Variational": "dvml",
    "Deep Metric Learning with Hierarchical Triplet": "hierarchical_triplet",
}


@dataclass(frozen=True)
class PublishedPoint:
    """Score of a method with its year of publication.

    Attributes:
        method: Name of the method in levelfield.
        label: Name of the method in figures.
        year: Year of publication.
        value: Mean of the numbers, in percent.
        n: How many numbers: cells of tables, or scores of own records.
    """

    method: str
    label: str
    year: int
    value: float
    n: int = 1


@cache
def years() -> dict[str, tuple[str, int]]:
    """Return label and year of publication of each method.

    Example:
        >>> years()["proxy_nca"]
        ('ProxyNCA', 2017)
    """
    return {row["method"]: (row["label"], int(row["year"])) for row in read_table("methods.csv")}


def claimed(dataset: str) -> list[PublishedPoint]:
    """Return the Precision@1 (%) that papers claim on a dataset: the mean of the quoted numbers per method.

    Example:
        >>> [(point.label, point.year, round(point.value, 1), point.n) for point in claimed("cub200")][:2]
        [('Contrastive', 2006, 30.1, 10), ('Triplet', 2006, 40.9, 12)]
    """
    return _mean_points(_claimed_cells(dataset))


def measured(
    dataset: str,
    *,
    source: str = "reality-check-later",
    setting: str = "concatenated",
    metric: str = "precision_at_1",
) -> list[PublishedPoint]:
    """Return the scores (%) that one fair comparison measured, one per method.

    Example:
        >>> min(point.value for point in measured("cub200")) > 60
        True
    """
    return _mean_points(results(source=source, dataset=dataset, setting=setting, metric=metric))


def claimed_improvements(baseline: str, dataset: str) -> dict[str, float]:
    """Return the relative improvement (%) of proposed methods over a baseline of the same paper, by method.

    Only papers whose proposed method has a number in one of the sources are included.

    Example:
        >>> round(claimed_improvements("contrastive", "cars196")["lifted_structure"])
        144
    """
    rows = results(source="reality-check-supplement", method=baseline, dataset=dataset)
    proposed = {point.method: point.value for point in claimed(dataset)}
    found = {}
    for cell in rows:
        method = next((name for title, name in PAPERS.items() if cell.row.startswith(title)), "")
        if cell.value is not None and method in proposed:
            found[method] = 100 * (proposed[method] / cell.value - 1)
    return found


def measured_improvements(baseline: str, points: Sequence[PublishedPoint]) -> dict[str, float]:
    """Return the relative improvement (%) over a baseline, by method, without contrastive and triplet.

    Example:
        >>> baseline = PublishedPoint("contrastive", "C", 2006, 50.0)
        >>> points = [baseline, PublishedPoint("margin", "M", 2017, 55.0)]
        >>> {name: round(value, 6) for name, value in measured_improvements("contrastive", points).items()}
        {'margin': 10.0}
    """
    (base,) = (point.value for point in points if point.method == baseline)
    if not base > 0:
        return {}  # nothing can be a percentage of it
    return {
        point.method: 100 * (point.value / base - 1)
        for point in points
        if point.method not in ("contrastive", "triplet")
    }


def _claimed_cells(dataset: str) -> list[PublishedCell]:
    quoted = results(setting="claimed", dataset=dataset, metric="precision_at_1")
    # Two slides of the thesis quote the same number of the same paper; count it once.
    seen: set[tuple[str, str, str]] = set()
    unique = []
    for cell in quoted:
        key = (cell.method, cell.printed, cell.row if cell.source == "reality-check-supplement" else "")
        if key not in seen:
            seen.add(key)
            unique.append(cell)
    return unique


def _mean_points(cells: Iterable[PublishedCell]) -> list[PublishedPoint]:
    values: dict[str, list[float]] = {}
    for cell in cells:
        if cell.method in years() and cell.value is not None:
            values.setdefault(cell.method, []).append(cell.value)
    points = [
        PublishedPoint(method, *years()[method], value=sum(found) / len(found), n=len(found))
        for method, found in values.items()
    ]
    return sorted(points, key=lambda point: (point.year, point.label))
