"""Relevant gallery items of each query, by label, and the ranks at which a search found them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.core.errors import UsageError


def labels_as_array(name: str, labels: Any) -> np.ndarray[Any, Any]:
    """Return ``labels`` as a one-dimensional NumPy array of whole numbers or strings."""
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim != 1:
        raise UsageError(f"{name} has shape {array.shape}; give one label per row, shape (N,)")
    if array.dtype.kind == "O":
        if not all(isinstance(label, str) for label in array):
            raise UsageError(f"{name} mixes types; give whole numbers or strings")
        array = array.astype(str)
    if array.dtype.kind == "f":
        if not np.all(np.isfinite(array)) or np.any(array != np.round(array)):
            raise UsageError(f"{name} holds fractions; give whole numbers or strings")
        array = array.astype(np.int64)
    if array.dtype.kind not in "iubUS":
        raise UsageError(f"{name} is of type {array.dtype}; give whole numbers or strings")
    return array


def encode_labels(labels: Any, gallery_labels: Any | None) -> tuple[Tensor, Tensor, int]:
    """Return the class numbers 0..C-1 of the queries (N,) and of the gallery (M,), and C.

    Example:
        >>> encode_labels(["cat", "dog"], ["dog", "cow"])
        (tensor([0, 2]), tensor([2, 1]), 3)
    """
    queries = labels_as_array("labels", labels)
    if gallery_labels is None:
        names, codes = np.unique(queries, return_inverse=True)
        own = torch.from_numpy(codes.astype(np.int64))
        return own, own, len(names)
    items = labels_as_array("gallery_labels", gallery_labels)
    if (queries.dtype.kind in "US") != (items.dtype.kind in "US"):
        raise UsageError(
            f"labels are {queries.dtype} but gallery_labels are {items.dtype}; "
            "give both as numbers or both as strings"
        )
    names, codes = np.unique(np.concatenate([queries, items]), return_inverse=True)
    both = torch.from_numpy(codes.astype(np.int64))
    return both[: len(queries)], both[len(queries) :], len(names)


@dataclass(frozen=True)
class Relevance:
    """Relevant gallery items of each query: those of its class, except the query itself.

    Attributes:
        queries: int64 (N,), class of each query.
        items: int64 (M,), class of each gallery item.
        by_class: int64 (M,), gallery rows sorted by class.
        start: int64 (C,), position of each class's first row in ``by_class``.
        size: int64 (C,), number of rows of each class.
        exclude_self: Whether the queries are the gallery, row for row; a query then does not find itself.
    """

    queries: Tensor
    items: Tensor
    by_class: Tensor
    start: Tensor
    size: Tensor
    exclude_self: bool

    @property
    def relevant(self) -> Tensor:
        """Number of relevant items of each query, int64 (N,)."""
        return self.size[self.queries] - int(self.exclude_self)

    def columns(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the relevant gallery rows of queries ``rows`` (B,), int64 (B, W), and a mask of valid ones.

        W is the size of the largest class in the block. Shorter rows are padded with column 0, which is
        masked out.
        """
        classes = self.queries[rows]
        size = self.size[classes][:, None]
        position = torch.arange(int(size.max()), device=rows.device)[None, :]
        real = position < size
        columns = self.by_class[(self.start[classes][:, None] + position).where(real, 0)]
        return columns, real & (columns != rows[:, None]) if self.exclude_self else real


def build_relevance(queries: Tensor, items: Tensor, num_classes: int, *, exclude_self: bool) -> Relevance:
    """Return the :class:`Relevance` of class numbers ``queries`` (N,) and ``items`` (M,)."""
    size = torch.bincount(items, minlength=num_classes)
    return Relevance(
        queries=queries,
        items=items,
        by_class=torch.argsort(items, stable=True),
        start=torch.cumsum(size, 0) - size,
        size=size,
        exclude_self=exclude_self,
    )


@dataclass(frozen=True)
class RelevantHits:
    """Relevant items found for a block of B queries, as H (query, rank) pairs.

    Retrieval metrics are functions of these. Only as many are listed as the requested metrics need, so a
    metric must not look further down than its card's ``depth``.

    Attributes:
        row: int64 (H,), the query's number in the block, 0..B-1.
        rank: int64 (H,), the item's rank for that query, from 1.
        nth: int64 (H,), number of relevant items up to and including that rank, from 1.
        relevant: int64 (B,), number of relevant items in the gallery for each query; never 0.
        gallery: Number of items that each query is ranked against.

    Example:
        >>> one = torch.tensor
        >>> hits = RelevantHits(
        ...     row=one([0, 0]), rank=one([1, 4]), nth=one([1, 2]), relevant=one([2]), gallery=9
        ... )
        >>> hits.total(hits.nth / hits.rank, hits.rank <= 4)
        tensor([1.5000], dtype=torch.float64)
    """

    row: Tensor
    rank: Tensor
    nth: Tensor
    relevant: Tensor
    gallery: int

    def total(self, values: Tensor, where: Tensor) -> Tensor:
        """Return each query's sum of ``values`` (H,) over hits where ``where`` (H,) is true; float64 (B,)."""
        sums = torch.zeros(len(self.relevant), dtype=torch.float64, device=self.row.device)
        return sums.index_add_(0, self.row, torch.where(where, values.double(), 0.0))

    def count(self, where: Tensor) -> Tensor:
        """Return the number of each query's hits where ``where`` (H,) is true; float64 (B,)."""
        return self.total(torch.ones_like(self.rank), where)
