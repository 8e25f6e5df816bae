"""Every measure of the papers, exact, fast, and in bounded memory."""

from __future__ import annotations

from levelfield.metrics._evaluate import DEFAULT, evaluate
from levelfield.metrics._hits import Hits
from levelfield.metrics._registry import MetricCard, register, registry, resolve
from levelfield.metrics._scores import Scores

__all__ = ["DEFAULT", "Hits", "MetricCard", "Scores", "evaluate", "register", "registry", "resolve"]
