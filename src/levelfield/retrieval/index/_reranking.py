"""Re-ranking of one search: query expansion, and k-reciprocal neighbors among the first results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.retrieval.index._store import VectorStore
from levelfield.retrieval.index._vectors import Rows
from levelfield.retrieval.rerank import expand_queries, rerank_k_reciprocal

POOL = 1000  # first results among which reciprocal neighbors are looked for
MAX_NEIGHBORS = 100
# Neighbors between those that were best on CUB and on Glyphs, see docs/search.md; the paper's weight.
DEFAULTS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "aqe": {"neighbors": 4},
        "alpha_qe": {"neighbors": 4, "alpha": 1.0},
        "k_reciprocal": {"k1": 20, "k2": 6, "weight": 0.3},
    }
)
RERANKINGS = tuple(DEFAULTS)


@dataclass(frozen=True)
class Reranking:
    """Re-ranking of one search.

    Args:
        name: "aqe", "alpha_qe" or "k_reciprocal".
        options: Parameters of :func:`levelfield.retrieval.rerank.expand_queries` or
            :func:`levelfield.retrieval.rerank.rerank_k_reciprocal`; others have their default.

    Example:
        >>> Reranking("k_reciprocal", {"k1": 10}).parameters
        {'k1': 10, 'k2': 6, 'weight': 0.3}
    """

    name: str
    options: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in DEFAULTS:
            raise UsageError(
                f'"{str(self.name)[:80]}" is no re-ranking of a search'
                f"{did_you_mean(str(self.name), RERANKINGS)}"
            )
        for option, value in self.options.items():
            if option not in DEFAULTS[self.name]:
                known = ", ".join(DEFAULTS[self.name])
                raise UsageError(f'{self.name} has no parameter "{str(option)[:80]}"; it has {known}')
            if option in {"neighbors", "k1", "k2"} and not (
                isinstance(value, int) and 1 <= value <= MAX_NEIGHBORS
            ):
                raise UsageError(f"{option} is {value}; use a whole number from 1 to {MAX_NEIGHBORS}")
            if not 0 <= value <= MAX_NEIGHBORS:
                raise UsageError(f"{option} is {value}; use a number from 0 to {MAX_NEIGHBORS}")

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters, with defaults."""
        return {**DEFAULTS[self.name], **self.options}

    def order(self, store: VectorStore, query: Tensor, count: int, *, among: Rows | None = None) -> Rows:
        """Return the ``count`` first rows of the re-ranked search.

        Args:
            store: Index.
            query: Vector (D,); its length does not matter.
            count: Number of rows.
            among: Rows to search; None for all.
        """
        unit = F.normalize(query[None], dim=1)
        if self.name == "k_reciprocal":
            return self._reciprocal(store, unit, count, among)
        neighbors = int(self.parameters["neighbors"])
        first = _first_rows(store, unit, neighbors, among)
        if not len(first):
            return first
        gallery = torch.from_numpy(store.vectors(first))
        alpha = float(self.parameters.get("alpha", 0))
        return _first_rows(
            store, expand_queries(unit, gallery, neighbors=len(first), alpha=alpha), count, among
        )

    def _reciprocal(self, store: VectorStore, unit: Tensor, count: int, among: Rows | None) -> Rows:
        rows = _first_rows(store, unit, max(POOL, count), among)
        if len(rows) < 2:
            return rows[:count]
        gallery = torch.from_numpy(store.vectors(rows))
        given = self.parameters
        order = rerank_k_reciprocal(
            unit, gallery, count=len(rows), k1=int(given["k1"]), k2=int(given["k2"]), weight=given["weight"]
        )
        ordered: Rows = rows[order[0].numpy()][:count]
        return ordered


def as_reranking(given: str | Reranking | None) -> Reranking | None:
    """Return the re-ranking of a name; None for none.

    Example:
        >>> as_reranking("none") is None
        True
    """
    if given is None or isinstance(given, Reranking):
        return given
    return None if given == "none" else Reranking(given)


def _first_rows(store: VectorStore, query: Tensor, count: int, among: Rows | None) -> Rows:
    rows, _ = store.nearest(np.ascontiguousarray(query.numpy()), count, among=among)
    found: Rows = rows[0][rows[0] >= 0]
    return found
