"""The protocol: search, selection, confirmation, and the guard in front of the test set.

The names below are imported on first use, so that importing the types of a plan does not load torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazy_exports

if TYPE_CHECKING:
    from levelfield.protocol._plan import MethodPlan, Plan, plan
    from levelfield.protocol._preregister import preregister
    from levelfield.protocol._reproduce import Reproduction, recorded_experiment, reproduce
    from levelfield.protocol._run import run_protocol
    from levelfield.protocol._sweep import (
        Factor,
        SweepPoint,
        parse_factor,
        run_sweep,
        sweep_points,
    )
    from levelfield.protocol.confirm._confirm import rerun_specs
    from levelfield.protocol.schedule._progress import (
        ProgressCallback,
        ProgressEvent,
        ProgressRow,
        ProgressState,
    )
    from levelfield.protocol.search._search import search_id
    from levelfield.protocol.spec._resolve import resolve_experiment
    from levelfield.protocol.spec._resolved import ResolvedExperiment

__all__ = [
    "Factor",
    "MethodPlan",
    "Plan",
    "ProgressCallback",
    "ProgressEvent",
    "ProgressRow",
    "ProgressState",
    "Reproduction",
    "ResolvedExperiment",
    "SweepPoint",
    "parse_factor",
    "plan",
    "preregister",
    "recorded_experiment",
    "reproduce",
    "rerun_specs",
    "resolve_experiment",
    "run_protocol",
    "run_sweep",
    "search_id",
    "sweep_points",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "levelfield.protocol._plan": ("MethodPlan", "Plan", "plan"),
        "levelfield.protocol._preregister": ("preregister",),
        "levelfield.protocol._reproduce": ("Reproduction", "recorded_experiment", "reproduce"),
        "levelfield.protocol._run": ("run_protocol",),
        "levelfield.protocol._sweep": (
            "Factor",
            "SweepPoint",
            "parse_factor",
            "run_sweep",
            "sweep_points",
        ),
        "levelfield.protocol.confirm._confirm": ("rerun_specs",),
        "levelfield.protocol.schedule._progress": (
            "ProgressState",
            "ProgressEvent",
            "ProgressCallback",
            "ProgressRow",
        ),
        "levelfield.protocol.search._search": ("search_id",),
        "levelfield.protocol.spec._resolve": ("resolve_experiment",),
        "levelfield.protocol.spec._resolved": ("ResolvedExperiment",),
    },
)
