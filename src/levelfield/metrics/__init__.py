"""Every measure of the papers, exact, fast, and in bounded memory."""

from __future__ import annotations

from levelfield.metrics._clusters import Contingency
from levelfield.metrics._correlation import Correlation, correlation
from levelfield.metrics._evaluate import DEFAULT, evaluate
from levelfield.metrics._registry import MetricCard, card, register, registry, resolve, selection_sign
from levelfield.metrics._relevance import Hits
from levelfield.metrics._scores import Scores
from levelfield.metrics.structure import Space, spectrum

__all__ = [
    "DEFAULT",
    "Contingency",
    "Correlation",
    "Hits",
    "MetricCard",
    "Scores",
    "Space",
    "card",
    "correlation",
    "evaluate",
    "register",
    "registry",
    "resolve",
    "selection_sign",
    "spectrum",
]
