"""The functions behind ``lf.`` and the command line; each is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazy_exports

if TYPE_CHECKING:
    from levelfield.api._archive import archive
    from levelfield.api._checks import power, verify, verify_notes
    from levelfield.api._export import export
    from levelfield.api._preregister import anchor, preregister
    from levelfield.api._result import ExperimentResult, ExperimentsResult, compare
    from levelfield.api._run import (
        as_experiment,
        experiment_directory,
        plan,
        run,
        run_without_trackers,
        with_trackers,
    )

__all__ = [
    "ExperimentResult",
    "ExperimentsResult",
    "anchor",
    "archive",
    "as_experiment",
    "compare",
    "experiment_directory",
    "export",
    "plan",
    "power",
    "preregister",
    "run",
    "run_without_trackers",
    "verify",
    "verify_notes",
    "with_trackers",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "levelfield.api._archive": ("archive",),
        "levelfield.api._checks": ("power", "verify", "verify_notes"),
        "levelfield.api._export": ("export",),
        "levelfield.api._preregister": ("anchor", "preregister"),
        "levelfield.api._result": ("ExperimentResult", "ExperimentsResult", "compare"),
        "levelfield.api._run": (
            "as_experiment",
            "experiment_directory",
            "plan",
            "run",
            "run_without_trackers",
            "with_trackers",
        ),
    },
)
