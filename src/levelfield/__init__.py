"""levelfield: the level playing field for deep metric learning.

Names are imported when first used, so that ``import levelfield`` takes a fraction of a second. ``__all__`` is
the public API; docs/api.md says which parts are stable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelfield.core.lazy import lazy_exports

if TYPE_CHECKING:
    from levelfield import (
        analysis,
        config,
        data,
        engine,
        losses,
        methods,
        metrics,
        miners,
        models,
        records,
        reports,
        retrieval,
        samplers,
        stats,
        studies,
        testing,
        track,
    )
    from levelfield.analysis.frames import results
    from levelfield.api import (
        ChoiceResult,
        EvaluationResult,
        ExperimentResult,
        ExperimentsResult,
        anchor,
        choose_model,
        compare,
        evaluate,
        export,
        plan,
        power,
        preregister,
        run,
        verify,
    )
    from levelfield.config import Experiment
    from levelfield.core import errors
    from levelfield.core.space import Choice, Float, Int
    from levelfield.retrieval.embedders import load_embedder
    from levelfield.retrieval.index import Searcher

__all__ = [
    "Choice",
    "ChoiceResult",
    "EvaluationResult",
    "Experiment",
    "ExperimentResult",
    "ExperimentsResult",
    "Float",
    "Int",
    "Searcher",
    "analysis",
    "anchor",
    "choose_model",
    "compare",
    "config",
    "data",
    "engine",
    "errors",
    "evaluate",
    "export",
    "load_embedder",
    "losses",
    "methods",
    "metrics",
    "miners",
    "models",
    "plan",
    "power",
    "preregister",
    "records",
    "reports",
    "results",
    "retrieval",
    "run",
    "samplers",
    "stats",
    "studies",
    "testing",
    "track",
    "verify",
]
__version__ = "0.2.0"

_PACKAGES = (
    "analysis",
    "config",
    "data",
    "engine",
    "losses",
    "methods",
    "metrics",
    "miners",
    "models",
    "records",
    "reports",
    "retrieval",
    "samplers",
    "stats",
    "studies",
    "testing",
    "track",
)
_MOVED = {  # old name to new one, accepted with a warning
    "batches": "samplers",
    "embedders": "retrieval.embedders",
    "index": "retrieval.index",
    "rerank": "retrieval.rerank",
}

_find, __dir__ = lazy_exports(
    __name__,
    {
        **{f"levelfield.{package}": (package,) for package in _PACKAGES},
        "levelfield.analysis.frames": ("results",),
        "levelfield.api": (
            "ChoiceResult",
            "EvaluationResult",
            "ExperimentResult",
            "ExperimentsResult",
            "anchor",
            "choose_model",
            "compare",
            "evaluate",
            "export",
            "plan",
            "power",
            "preregister",
            "run",
            "verify",
        ),
        "levelfield.config": ("Experiment",),
        "levelfield.core.errors": ("errors",),
        "levelfield.core.space": (
            "Choice",
            "Float",
            "Int",
        ),
        "levelfield.retrieval.embedders": ("load_embedder",),
        "levelfield.retrieval.index": ("Searcher",),
    },
)


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        import importlib

        from levelfield.core.deprecation import renamed_option

        package = importlib.import_module(f"levelfield.{renamed_option(name, _MOVED[name], of='levelfield')}")
        globals()[name] = package  # so that the warning comes once
        return package
    return _find(name)
