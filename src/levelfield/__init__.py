"""levelfield: the level playing field for deep metric learning.

The public names below are imported when first used, so that ``import levelfield`` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield import (
        batches,
        data,
        embedders,
        engine,
        index,
        losses,
        methods,
        metrics,
        miners,
        models,
        rerank,
        track,
    )
    from levelfield.app import run
    from levelfield.config import Experiment
    from levelfield.embedders import load_embedder
    from levelfield.frames import results
    from levelfield.index import Searcher
    from levelfield.space import Choice, Float, Int

__all__ = [
    "Choice",
    "Experiment",
    "Float",
    "Int",
    "Searcher",
    "batches",
    "data",
    "embedders",
    "engine",
    "index",
    "load_embedder",
    "losses",
    "methods",
    "metrics",
    "miners",
    "models",
    "rerank",
    "results",
    "run",
    "track",
]
__version__ = "0.1.0"

_HOMES = {
    "Choice": "levelfield.space",
    "Float": "levelfield.space",
    "Int": "levelfield.space",
    "Experiment": "levelfield.config",
    "Searcher": "levelfield.index",
    "load_embedder": "levelfield.embedders",
    "results": "levelfield.frames",
    "run": "levelfield.app",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"levelfield.{name}")
    raise AttributeError(f"module 'levelfield' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
