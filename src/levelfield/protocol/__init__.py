"""The protocol: search, selection, confirmation, and the guard before the test set."""

from levelfield.protocol._confirmation import Confirmation, read_confirmation
from levelfield.protocol._importance import importance, searched_space
from levelfield.protocol._plan import MethodPlan, Plan, plan
from levelfield.protocol._reproduce import Reproduction, reproduce
from levelfield.protocol._resolve import Resolved, resolve
from levelfield.protocol._results import Comparison, Result, collect
from levelfield.protocol._run import Progress, run
from levelfield.protocol._search import search_id, select
from levelfield.protocol._sweep import Factor, SweepPoint, parse_factor, run_sweep, sweep_points
from levelfield.records import SETTINGS

__all__ = [
    "SETTINGS",
    "Comparison",
    "Confirmation",
    "Factor",
    "MethodPlan",
    "Plan",
    "Progress",
    "Reproduction",
    "Resolved",
    "Result",
    "SweepPoint",
    "collect",
    "importance",
    "parse_factor",
    "plan",
    "read_confirmation",
    "reproduce",
    "resolve",
    "run",
    "run_sweep",
    "search_id",
    "searched_space",
    "select",
    "sweep_points",
]
