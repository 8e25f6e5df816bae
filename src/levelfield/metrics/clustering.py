"""Clustering metrics: agreement of k-means clusters (k = number of classes) with the classes."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from levelfield.metrics._clusters import Contingency, Counts
from levelfield.metrics._registry import register


@register("nmi", higher_is_better=True, label="NMI", unit="percent", kind="clustering")
def nmi(table: Contingency) -> float:
    """Return the normalized mutual information, 2 I(class; cluster) / (H(class) + H(cluster)).

    Example:
        >>> from levelfield.metrics._clusters import contingency
        >>> nmi(contingency([0, 0, 1, 1], [7, 7, 3, 3]))
        1.0
    """
    entropies = _entropy(table.classes) + _entropy(table.clusters)
    if entropies == 0:  # one class, one cluster: they agree
        return 1.0
    return float(np.clip(2 * _mutual_information(table) / entropies, 0.0, 1.0))


@register("ami", higher_is_better=True, label="AMI", unit="percent", kind="clustering")
def ami(table: Contingency) -> float:
    """Return the adjusted mutual information: NMI corrected for chance, so that random clusters score 0."""
    mean_entropy = (_entropy(table.classes) + _entropy(table.clusters)) / 2
    if mean_entropy == 0 or len(table.classes) == len(table.clusters) == table.total:
        return 1.0
    expected = _expected_information(table.classes, table.clusters, table.total)
    room = mean_entropy - expected
    return float((_mutual_information(table) - expected) / (room if abs(room) > 1e-15 else 1e-15))


@register("f1", higher_is_better=True, label="F1", unit="percent", kind="clustering")
def f1(table: Contingency) -> float:
    """Return F1 over pairs of samples: a pair in one cluster is correct if it is of one class."""

    def pairs(counts: Counts) -> float:
        return float(np.sum(counts.astype(np.float64) * (counts - 1)))

    predicted, true = pairs(table.clusters), pairs(table.classes)
    return 2 * pairs(table.cells) / (predicted + true) if predicted + true else 1.0


def _entropy(counts: Counts) -> float:
    share = counts / counts.sum()
    return float(-np.sum(share * np.log(share)))


def _mutual_information(table: Contingency) -> float:
    cells, n = table.cells.astype(np.float64), table.total
    apart = table.classes[table.cell_class] * (table.clusters[table.cell_cluster] / n)
    return max(0.0, float(np.sum(cells / n * np.log(cells / apart))))


def _expected_information(classes: Counts, clusters: Counts, n: int) -> float:
    """Return the mean mutual information of random labelings with these sizes (hypergeometric model).

    It depends on the sizes only. Equal sizes are computed once: thousands of classes have few distinct sizes.
    """
    total = 0.0
    for a, times_a in zip(*np.unique(classes, return_counts=True), strict=True):
        for b, times_b in zip(*np.unique(clusters, return_counts=True), strict=True):
            both = np.arange(max(1, a + b - n), min(a, b) + 1, dtype=np.float64)
            chance = (
                gammaln(a + 1) + gammaln(b + 1) + gammaln(n - a + 1) + gammaln(n - b + 1) - gammaln(n + 1)
            ) - (
                gammaln(both + 1)
                + gammaln(a - both + 1)
                + gammaln(b - both + 1)
                + gammaln(n - a - b + both + 1)
            )
            value = both / n * np.log(both * n / (float(a) * float(b))) * np.exp(chance)
            total += int(times_a) * int(times_b) * float(value.sum())
    return total
