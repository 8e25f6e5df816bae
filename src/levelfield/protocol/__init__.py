"""The protocol: search, selection, confirmation, and the guard before the test set.

The names below are imported when first used: what is read from records alone stays free of torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.protocol._export import export_model
    from levelfield.protocol._importance import importance, searched_space
    from levelfield.protocol._plan import MethodPlan, Plan, plan
    from levelfield.protocol._progress import Board, Event, Progress, Row
    from levelfield.protocol._reproduce import Reproduction, reproduce
    from levelfield.protocol._resolve import resolve
    from levelfield.protocol._resolved import Resolved
    from levelfield.protocol._run import run
    from levelfield.protocol._search import search_id
    from levelfield.protocol._study import ExportedStudy, export_study
    from levelfield.protocol._sweep import (
        Factor,
        SweepPoint,
        factors_of,
        parse_factor,
        run_sweep,
        sweep_points,
    )

__all__ = [
    "Board",
    "Event",
    "ExportedStudy",
    "Factor",
    "MethodPlan",
    "Plan",
    "Progress",
    "Reproduction",
    "Resolved",
    "Row",
    "SweepPoint",
    "export_model",
    "export_study",
    "factors_of",
    "importance",
    "parse_factor",
    "plan",
    "reproduce",
    "resolve",
    "run",
    "run_sweep",
    "search_id",
    "searched_space",
    "sweep_points",
]

_HOMES = {
    "_export": ("export_model",),
    "_importance": ("importance", "searched_space"),
    "_plan": ("MethodPlan", "Plan", "plan"),
    "_reproduce": ("Reproduction", "reproduce"),
    "_resolve": ("resolve",),
    "_resolved": ("Resolved",),
    "_progress": ("Board", "Event", "Progress", "Row"),
    "_run": ("run",),
    "_search": ("search_id",),
    "_study": ("ExportedStudy", "export_study"),
    "_sweep": ("Factor", "SweepPoint", "factors_of", "parse_factor", "run_sweep", "sweep_points"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"levelfield.protocol.{home}"), name)
    raise AttributeError(f"module 'levelfield.protocol' has no attribute '{name}'")
