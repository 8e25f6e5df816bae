"""The literature built in: the papers' tables and hyperparameters, each number with its source.

Transcribed as printed; misprints are kept, and flagged in ``note``.
"""

from __future__ import annotations

from levelfield.published._cells import Cell, results
from levelfield.published._claims import (
    Point,
    claimed,
    claimed_improvements,
    measured,
    measured_improvements,
    years,
)
from levelfield.published._optima import (
    DEFAULT_SOURCE,
    Optimum,
    SearchRange,
    optima,
    optimum,
    ranges,
    search_space,
)
from levelfield.published._tables import Source, sources
from levelfield.published._tournament import Disagreement, ThesisTournament, thesis_tournament

__all__ = [
    "DEFAULT_SOURCE",
    "Cell",
    "Disagreement",
    "Optimum",
    "Point",
    "SearchRange",
    "Source",
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
