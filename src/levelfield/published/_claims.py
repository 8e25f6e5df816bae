"""What papers claim and what fair comparisons find, as plain rows for figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from levelfield.published._cells import Cell, results
from levelfield.published._tables import read_table

# Proposed methods of the papers that the supplement lists: their titles there begin like this.
PAPERS = {
    "Deep Metric Learning via Lifted Structured": "lifted_structure",
    "Sampling Matters": "margin",
    "Attention-based Ensemble": "abe",
    "Deep Variational": "dvml",
    "Deep Metric Learning with Hierarchical Triplet": "hierarchical_triplet",
}


@dataclass(frozen=True)
class Point:
    """A method's score, dated; ``n`` is how many published numbers it is the mean of."""

    method: str
    label: str
    year: int
    value: float
    n: int = 1


@cache
def years() -> dict[str, tuple[str, int]]:
    """Label and year of publication by method.

    Example:
        >>> years()["proxy_nca"]
        ('ProxyNCA', 2017)
    """
    return {row["method"]: (row["label"], int(row["year"])) for row in read_table("methods.csv")}


def claimed(dataset: str) -> list[Point]:
    """Precision@1 (%) that papers state for a dataset: a point per method, the mean of what is quoted.

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
) -> list[Point]:
    """A score (%) of every method that one fair comparison measured: a point per method.

    Example:
        >>> min(point.value for point in measured("cub200")) > 60
        True
    """
    return _mean_points(results(source=source, dataset=dataset, setting=setting, metric=metric))


def claimed_improvements(baseline: str, dataset: str) -> dict[str, float]:
    """Relative improvement (%) of proposed methods over what the same paper gives a baseline, by method.

    Only papers whose proposed method's number is printed in one of our sources can be counted.

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


def measured_improvements(baseline: str, points: Sequence[Point]) -> dict[str, float]:
    """Relative improvement (%) over a baseline, by method; the two classic losses are left out.

    Example:
        >>> points = [Point("contrastive", "C", 2006, 50.0), Point("margin", "M", 2017, 55.0)]
        >>> {name: round(value, 6) for name, value in measured_improvements("contrastive", points).items()}
        {'margin': 10.0}
    """
    (base,) = (point.value for point in points if point.method == baseline)
    return {
        point.method: 100 * (point.value / base - 1)
        for point in points
        if point.method not in ("contrastive", "triplet")
    }


def _claimed_cells(dataset: str) -> list[Cell]:
    quoted = results(setting="claimed", dataset=dataset, metric="precision_at_1")
    # Two slides of the thesis quote the same number of the same paper; once is enough.
    seen: set[tuple[str, str, str]] = set()
    unique = []
    for cell in quoted:
        key = (cell.method, cell.printed, cell.row if cell.source == "reality-check-supplement" else "")
        if key not in seen:
            seen.add(key)
            unique.append(cell)
    return unique


def _mean_points(cells: Iterable[Cell]) -> list[Point]:
    values: dict[str, list[float]] = {}
    for cell in cells:
        if cell.method in years() and cell.value is not None:
            values.setdefault(cell.method, []).append(cell.value)
    points = [
        Point(method, *years()[method], value=sum(found) / len(found), n=len(found))
        for method, found in values.items()
    ]
    return sorted(points, key=lambda point: (point.year, point.label))
