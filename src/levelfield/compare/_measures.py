"""Labels, units and directions of an experiment's metrics."""

from __future__ import annotations

from levelfield.errors import UsageError
from levelfield.records import Index, Measure


def measures_of(index: Index) -> dict[str, Measure]:
    """The metrics that an experiment tests and selects by, by name.

    They are on record. In a folder that an earlier version wrote they are not, and are looked up.
    """
    recorded = {measure.name: measure for measure in index.measures}
    wanted = dict.fromkeys((*index.experiment.metrics, index.experiment.training.metric))
    return {name: recorded.get(name) or measure(name) for name in wanted}


def measure(name: str) -> Measure:
    """What the metric's own card says; a bare name where the metric is not known here.

    This loads the metrics, and torch with them: read :attr:`Comparison.measures` where that will do.

    Example:
        >>> measure("recall_at_8").label
        'R@8'
    """
    from levelfield import metrics

    try:
        card = metrics.card(name)
    except UsageError:
        return Measure(name=name, label=name)
    return Measure(name=name, label=card.label, unit=card.unit, higher_is_better=card.higher_is_better)
