"""Metrics of retrieval, clustering and embedding structure: exact, fast, and in bounded memory."""

from __future__ import annotations

from levelfield.metrics._clusters import Contingency
from levelfield.metrics._concatenation import evaluate_concatenation
from levelfield.metrics._correlation import Correlation, correlation
from levelfield.metrics._evaluate import DEFAULT_METRICS, evaluate
from levelfield.metrics._rankings import score_rankings
from levelfield.metrics._registry import MetricCard, card, register, registry, resolve_metric, selection_sign
from levelfield.metrics._relevance import RelevantHits
from levelfield.metrics._scores import Scores
from levelfield.metrics.structure import EmbeddingSpace, spectrum

__all__ = [
    "DEFAULT_METRICS",
    "Contingency",
    "Correlation",
    "EmbeddingSpace",
    "MetricCard",
    "RelevantHits",
    "Scores",
    "card",
    "correlation",
    "evaluate",
    "evaluate_concatenation",
    "register",
    "registry",
    "resolve_metric",
    "score_rankings",
    "selection_sign",
    "spectrum",
]
