"""The registry of figures: what ``levelfield report --figures`` draws of an experiment."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.compare import Evidence
from levelfield.registry import Card, Registry
from levelfield.reports.figures.charts import Chart


@dataclass(frozen=True, kw_only=True)
class FigureCard(Card):
    """A figure's card.

    Attributes:
        each_method: Whether the figure is drawn once for every trained method; it then takes the method's
            :class:`levelfield.compare.Result` as a second argument, and is named ``METHOD-NAME``.
    """

    each_method: bool = False


registry: Registry[FigureCard] = Registry("figure", FigureCard, package="levelfield.reports.figures")
register = registry.register


def charts_of(evidence: Evidence) -> dict[str, Chart]:
    """Every registered figure that the records allow, by file name."""
    found: dict[str, Chart | None] = {}
    for name in registry.names():
        entry = registry[name]
        if entry.card.each_method:
            for result in evidence.comparison.trained:
                found[f"{result.method}-{name}"] = entry.target(evidence, result)
        else:
            found[name] = entry.target(evidence)
    return {name: chart for name, chart in found.items() if chart is not None}
