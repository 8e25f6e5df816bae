"""The functions behind ``lf.`` and the command line; each is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazy_exports

if TYPE_CHECKING:
    from levelfield.api._archive import archive
    from levelfield.api._checks import power, verify, verify_notes
    from levelfield.api._evaluate import evaluate, evaluate_sources
    from levelfield.api._evaluation_result import EvaluationResult
    from levelfield.api._export import export
    from levelfield.api._model_files import group_files
    from levelfield.api._model_sources import Source
    from levelfield.api._named_lists import NamedLists
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
    from levelfield.api._same_items import Items
    from levelfield.api.choice._choose import choose_model
    from levelfield.api.choice._result import ChoiceResult

__all__ = [
    "ChoiceResult",
    "EvaluationResult",
    "ExperimentResult",
    "ExperimentsResult",
    "Items",
    "NamedLists",
    "Source",
    "anchor",
    "archive",
    "as_experiment",
    "choose_model",
    "compare",
    "evaluate",
    "evaluate_sources",
    "experiment_directory",
    "export",
    "group_files",
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
        "levelfield.api._evaluate": ("evaluate", "evaluate_sources"),
        "levelfield.api._evaluation_result": ("EvaluationResult",),
        "levelfield.api._export": ("export",),
        "levelfield.api.choice._choose": ("choose_model",),
        "levelfield.api.choice._result": ("ChoiceResult",),
        "levelfield.api._model_files": ("group_files",),
        "levelfield.api._model_sources": ("Source",),
        "levelfield.api._named_lists": ("NamedLists",),
        "levelfield.api._same_items": ("Items",),
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
