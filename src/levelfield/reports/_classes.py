"""Which classes are hard, and which are taken for each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from levelfield.compare import Evidence, Measure
from levelfield.records import Gallery, Store
from levelfield.reports.table import Cell, Column, Row, Table

MOST_CLASSES, MOST_CONFUSIONS = 100, 25


def class_scores(evidence: Evidence, measure: Measure) -> dict[int, dict[str, float]]:
    """The mean score of each test class by method, over its queries and all reruns; hardest classes first.

    Empty where the records do not name the classes, or the measure has no value per query.
    """
    methods: dict[str, dict[int, float]] = {}
    for method, confirmation in evidence.confirmations.items():
        queries, classes = confirmation.per_query(evidence.setting, measure.name), confirmation.classes()
        if queries is None or classes is None:
            return {}
        values = np.mean(list(queries.values()), axis=0)
        known = np.isfinite(values)
        methods[method] = {
            int(label): float(values[known & (classes == label)].mean())
            for label in np.unique(classes[known])
        }
    trained = [result.method for result in evidence.comparison.trained if result.method in methods]
    if not trained:
        return {}
    sign = -1 if measure.higher_is_better is False else 1

    def ease(label: int) -> float:
        return sign * float(np.mean([methods[method][label] for method in trained]))

    labels = sorted(set.intersection(*(set(found) for found in methods.values())), key=ease)
    return {label: {method: found[label] for method, found in methods.items()} for label in labels}


def classes_table(evidence: Evidence, *, limit: int | None = MOST_CLASSES) -> Table | None:
    """The hardest classes, a column per method; None if the records do not say."""
    measure = evidence.measure
    found = class_scores(evidence, measure)
    if not found:
        return None
    names = class_names(Store(evidence.root).gallery())
    methods = list(next(iter(found.values())))
    trained = [result.method for result in evidence.comparison.trained if result.method in methods]
    rows = []
    for label, scores in list(found.items())[:limit]:
        mean = float(np.mean([scores[method] for method in trained]))
        cells = [Cell(measure.shown(value), value=value) for value in (mean, *scores.values())]
        rows.append(Row((Cell(names.get(label, f"class {label}")), *cells)))
    columns = (Column("class", left=True), Column("mean of methods"), *map(Column, methods))
    return Table(
        columns, tuple(rows), title=f"{evidence.setting} {measure.axis} by class, {len(found)} classes"
    )


def confusions_table(evidence: Evidence) -> Table | None:
    """Pairs of classes: which share of the nearest neighbours of one are images of the other, by method."""
    gallery = Store(evidence.root).gallery()
    if gallery is None:
        return None
    shares: dict[str, dict[tuple[int, int], float]] = {}
    for method in (result.method for result in evidence.comparison.trained):
        if method in gallery.confirmations and method in evidence.confirmations:
            found = confusion_shares(evidence, gallery, method)
            if found is not None:
                shares[method] = found
    if not shares:
        return None
    pairs = {pair for found in shares.values() for pair in found}
    means = {pair: float(np.mean([found.get(pair, 0.0) for found in shares.values()])) for pair in pairs}
    worst = sorted(pairs, key=lambda pair: (-means[pair], pair))[:MOST_CONFUSIONS]
    names = class_names(gallery)
    rows = []
    for pair in worst:
        values = [means[pair], *(found.get(pair, 0.0) for found in shares.values())]
        cells = [Cell(f"{100 * value:.1f}", value=value) for value in values]
        rows.append(Row((Cell(names[pair[0]]), Cell(names[pair[1]]), *cells)))
    columns = (
        Column("query of", left=True),
        Column("taken for", left=True),
        Column("mean (%)"),
        *(Column(f"{method} (%)") for method in shares),
    )
    return Table(columns, tuple(rows))


def confusion_shares(
    evidence: Evidence, gallery: Gallery, method: str
) -> dict[tuple[int, int], float] | None:
    """By pair of classes: the share of the first one's neighbours that belong to the second."""
    found = evidence.confirmations[method].neighbours()
    if found is None:
        return None
    labels = np.asarray(gallery.labels)
    asked, answered = labels[found.queries], labels[found.rows]
    total = Counter(asked.tolist())
    wrong = Counter(
        (own, other)
        for own, line in zip(asked.tolist(), answered.tolist(), strict=True)
        for other in line
        if own != other
    )
    k = found.rows.shape[1]
    return {pair: count / (k * total[pair[0]]) for pair, count in wrong.items()}


def class_names(gallery: Gallery | None) -> Mapping[int, str]:
    """The names of the test classes, where they are on record."""
    return {} if gallery is None else gallery.class_names
