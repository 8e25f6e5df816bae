"""Labels, units and directions of an experiment's metrics."""

from __future__ import annotations

from levelfield.core.errors import UsageError
from levelfield.records import ExperimentRecord, MetricInfo


def read_metric_infos(index: ExperimentRecord) -> dict[str, MetricInfo]:
    """Return the test metrics and the selection metric of an experiment, by name.

    Records of old versions do not have them; they are then looked up in the registry.
    """
    recorded = {info.name: info for info in index.metrics}
    wanted = dict.fromkeys((*index.experiment.metrics, index.experiment.training.metric))
    return {name: recorded.get(name) or metric_info(name) for name in wanted}


def metric_info(name: str) -> MetricInfo:
    """Return label, unit and direction of a metric from its card; only the name if it is not registered.

    This imports the metrics and torch. Use :attr:`Comparison.metric_infos` where possible.

    Example:
        >>> metric_info("recall_at_8").label
        'R@8'
    """
    from levelfield import metrics

    try:
        card = metrics.card(name)
    except UsageError:
        return MetricInfo(name=name, label=name)
    return MetricInfo(name=name, label=card.label, unit=card.unit, higher_is_better=card.higher_is_better)
