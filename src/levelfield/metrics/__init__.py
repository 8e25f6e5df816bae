"""Every measure of the papers, exact, fast, and in bounded memory."""

from __future__ import annotations

from levelfield.metrics._correlation import Correlation, correlation
from levelfield.metrics._evaluate import DEFAULT, evaluate
from levelfield.metrics._hits import Hits
from levelfield.metrics._registry import MetricCard, register, registry, resolve
from levelfield.metrics._scores import Scores
from levelfield.metrics._spectrum import spectrum

__all__ = [
    "DEFAULT",
    "Correlation",
    "Hits",
    "MetricCard",
    "Scores",
    "correlation",
    "evaluate",
    "register",
    "registry",
    "resolve",
    "spectrum",
]
