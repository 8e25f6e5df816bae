"""Tables of test classes: scores by class, and confused classes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from levelfield.analysis import Analysis, MetricInfo
from levelfield.records import Gallery, Store
from levelfield.reports.table import Table, TableCell, TableColumn, TableRow

MAX_CLASSES, MAX_CONFUSIONS = 100, 25


def class_scores(analysis: Analysis, metric_info: MetricInfo) -> dict[int, dict[str, float]]:
    """Return the mean score of each test class by method, over queries and reruns; hardest classes first.

    Empty if the records do not name the classes, or the metric has no value per query.
    """
    methods: dict[str, dict[int, float]] = {}
    for method, confirmation in analysis.confirmations.items():
        queries, classes = confirmation.per_query(analysis.setting, metric_info.name), confirmation.classes()
        if queries is None or classes is None:
            return {}
        values = np.mean(list(queries.values()), axis=0)
        known = np.isfinite(values)
        methods[method] = {
            int(label): float(values[known & (classes == label)].mean())
            for label in np.unique(classes[known])
        }
    trained = [result.method for result in analysis.comparison.trained if result.method in methods]
    if not trained:
        return {}
    sign = metric_info.sign

    def mean_score(label: int) -> float:
        return sign * float(np.mean([methods[method][label] for method in trained]))

    labels = sorted(set.intersection(*(set(found) for found in methods.values())), key=mean_score)
    return {label: {method: found[label] for method, found in methods.items()} for label in labels}


def classes_table(analysis: Analysis, *, limit: int | None = MAX_CLASSES) -> Table | None:
    """Return the hardest classes with a column per method; None if the records do not have the classes."""
    metric_info = analysis.metric_info
    found = class_scores(analysis, metric_info)
    if not found:
        return None
    names = Store(analysis.root).class_names()
    methods = list(next(iter(found.values())))
    trained = [result.method for result in analysis.comparison.trained if result.method in methods]
    rows = []
    for label, scores in list(found.items())[:limit]:
        mean = float(np.mean([scores[method] for method in trained]))
        cells = [TableCell(metric_info.shown(value), value=value) for value in (mean, *scores.values())]
        rows.append(TableRow((TableCell(names.get(label, f"class {label}")), *cells)))
    columns = (TableColumn("class", left=True), TableColumn("mean of methods"), *map(TableColumn, methods))
    return Table(
        columns, tuple(rows), title=f"{analysis.setting} {metric_info.axis} by class, {len(found)} classes"
    )


def confusions_table(analysis: Analysis) -> Table | None:
    """Return pairs of classes with the share of neighbors of one that belong to the other, by method.

    None if there is no retrieval gallery, or if lists instead of classes say what is relevant.
    """
    gallery = Store(analysis.root).gallery()
    if gallery is None or gallery.relevant is not None:
        return None
    shares: dict[str, dict[tuple[int, int], float]] = {}
    for method in (result.method for result in analysis.comparison.trained):
        if method in gallery.confirmations and method in analysis.confirmations:
            found = confusion_shares(analysis, gallery, method)
            if found is not None:
                shares[method] = found
    if not shares:
        return None
    pairs = {pair for found in shares.values() for pair in found}
    means = {pair: float(np.mean([found.get(pair, 0.0) for found in shares.values()])) for pair in pairs}
    worst = sorted(pairs, key=lambda pair: (-means[pair], pair))[:MAX_CONFUSIONS]
    names = gallery.class_names
    rows = []
    for pair in worst:
        values = [means[pair], *(found.get(pair, 0.0) for found in shares.values())]
        cells = [TableCell(f"{100 * value:.1f}", value=value) for value in values]
        rows.append(TableRow((TableCell(names[pair[0]]), TableCell(names[pair[1]]), *cells)))
    columns = (
        TableColumn("query of", left=True),
        TableColumn("taken for", left=True),
        TableColumn("mean (%)"),
        *(TableColumn(f"{method} (%)") for method in shares),
    )
    return Table(columns, tuple(rows))


def confusion_shares(
    analysis: Analysis, gallery: Gallery, method: str
) -> dict[tuple[int, int], float] | None:
    """Return the share of neighbors of the first class that belong to the second, by pair of classes."""
    found = analysis.confirmations[method].neighbors()
    if found is None:
        return None
    labels = np.asarray(gallery.labels)
    query_labels, neighbor_labels = labels[found.queries], labels[found.rows]
    total = Counter(query_labels.tolist())
    wrong = Counter(
        (own, other)
        for own, line in zip(query_labels.tolist(), neighbor_labels.tolist(), strict=True)
        for other in line
        if own != other
    )
    k = found.rows.shape[1]
    return {pair: count / (k * total[pair[0]]) for pair, count in wrong.items()}
