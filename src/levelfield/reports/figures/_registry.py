"""Registry of the figures that ``levelfield report --figures`` draws."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.analysis import Analysis
from levelfield.core.registry import Card, Registry
from levelfield.reports.figures.charts import Chart


@dataclass(frozen=True, kw_only=True)
class FigureCard(Card):
    """Card of a figure.

    Attributes:
        each_method: True draws the figure once per trained method, as ``METHOD-NAME``. The function then
            takes a :class:`levelfield.analysis.MethodResult` as second argument.
    """

    each_method: bool = False


registry = Registry("figure", FigureCard, package="levelfield.reports.figures")
register = registry.register


def build_charts(analysis: Analysis) -> dict[str, Chart]:
    """Return the charts of all registered figures by file name, without those that lack records."""
    found: dict[str, Chart | None] = {}
    for name in registry.names():
        entry = registry[name]
        if entry.card.each_method:
            for result in analysis.comparison.trained:
                found[f"{result.method}-{name}"] = entry.target(analysis, result)
        else:
            found[name] = entry.target(analysis)
    return {name: chart for name, chart in found.items() if chart is not None}
