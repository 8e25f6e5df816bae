"""Retrieval with a trained embedder: model directories, image indexes, re-ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazy_exports

if TYPE_CHECKING:
    from levelfield.retrieval import embedders, index, rerank

__all__ = ["embedders", "index", "rerank"]

__getattr__, __dir__ = lazy_exports(
    __name__, {f"levelfield.retrieval.{package}": (package,) for package in __all__}
)
