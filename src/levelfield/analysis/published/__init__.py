"""Published results and hyperparameters of papers, each number with its source.

Numbers are transcribed as printed. Misprints are kept and flagged in ``note``.
"""

from __future__ import annotations

from levelfield.analysis.published._cells import PublishedCell, results
from levelfield.analysis.published._claims import (
    PublishedPoint,
    claimed,
    claimed_improvements,
    measured,
    measured_improvements,
    years,
)
from levelfield.analysis.published._optima import (
    DEFAULT_SOURCE,
    Optimum,
    SearchRange,
    optima,
    optimum,
    ranges,
    search_space,
)
from levelfield.analysis.published._tables import PaperSource, sources
from levelfield.analysis.published._tournament import Disagreement, ThesisTournament, thesis_tournament

__all__ = [
    "DEFAULT_SOURCE",
    "Disagreement",
    "Optimum",
    "PaperSource",
    "PublishedCell",
    "PublishedPoint",
    "SearchRange",
    "ThesisTournament",
    "claimed",
    "claimed_improvements",
    "measured",
    "measured_improvements",
    "optima",
    "optimum",
    "ranges",
    "results",
    "search_space",
    "sources",
    "thesis_tournament",
    "years",
]
