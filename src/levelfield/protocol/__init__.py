"""The protocol: search, selection, confirmation, and the guard before the test set."""

from levelfield.protocol._resolve import Resolved, resolve
from levelfield.protocol._results import SETTINGS, Comparison, Result, collect
from levelfield.protocol._run import Progress, run
from levelfield.protocol._search import search_id, select

__all__ = [
    "SETTINGS",
    "Comparison",
    "Progress",
    "Resolved",
    "Result",
    "collect",
    "resolve",
    "run",
    "search_id",
    "select",
]
