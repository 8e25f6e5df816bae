"""Who is relevant to whom, by their labels; and at which ranks a search found them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.errors import UsageError


def as_array(name: str, labels: Any) -> np.ndarray[Any, Any]:
    """``labels`` as a one-dimensional NumPy array of whole numbers or strings."""
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim != 1:
        raise UsageError(f"{name} has shape {array.shape}; give one label per row, shape (N,)")
    if array.dtype.kind == "O":
        if not all(isinstance(label, str) for label in array):
            raise UsageError(f"{name} mixes types; give whole numbers or strings")
        array = array.astype(str)
    if array.dtype.kind == "f":
        if not np.all(np.isfinite(array)) or np.any(array != np.round(array)):
            raise UsageError(f"{name} holds numbers that are not whole; give whole numbers or strings")
        array = array.astype(np.int64)
    if array.dtype.kind not in "iubUS":
        raise UsageError(f"{name} is of type {array.dtype}; give whole numbers or strings")
    return array


def encode(labels: Any, gallery_labels: Any | None) -> tuple[Tensor, Tensor, int]:
    """Class numbers 0..C-1 of the queries (N,) and of the gallery (M,), and C.

    Example:
        >>> encode(["cat", "dog"], ["dog", "cow"])
        (tensor([0, 2]), tensor([2, 1]), 3)
    """
    queries = as_array("labels", labels)
    if gallery_labels is None:
        names, codes = np.unique(queries, return_inverse=True)
        own = torch.from_numpy(codes.astype(np.int64))
        return own, own, len(names)
    items = as_array("gallery_labels", gallery_labels)
    if (queries.dtype.kind in "US") != (items.dtype.kind in "US"):
        raise UsageError(
            f"labels are {queries.dtype} but gallery_labels are {items.dtype}; they must be of one kind"
        )
    names, codes = np.unique(np.concatenate([queries, items]), return_inverse=True)
    both = torch.from_numpy(codes.astype(np.int64))
    return both[: len(queries)], both[len(queries) :], len(names)


@dataclass(frozen=True)
class Relevance:
    """Which gallery items are relevant to which query: those of its class, but never itself.

    Attributes:
        queries: int64 (N,), class of each query.
        items: int64 (M,), class of each gallery item.
        by_class: int64 (M,), gallery rows sorted by class, so that a class is one stretch.
        start: int64 (C,), where the stretch of each class begins.
        size: int64 (C,), how long it is.
        itself: Whether the queries are the gallery, row for row.
    """

    queries: Tensor
    items: Tensor
    by_class: Tensor
    start: Tensor
    size: Tensor
    itself: bool

    @property
    def relevant(self) -> Tensor:
        """int64 (N,): the number of relevant items of each query."""
        return self.size[self.queries] - int(self.itself)

    def columns(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The relevant gallery rows of queries ``rows`` (B,): int64 (B, W), and a mask of the true ones.

        W is the largest class of the block; shorter rows are filled up with column 0, masked out.
        """
        classes = self.queries[rows]
        size = self.size[classes][:, None]
        position = torch.arange(int(size.max()), device=rows.device)[None, :]
        real = position < size
        columns = self.by_class[(self.start[classes][:, None] + position).where(real, 0)]
        return columns, real & (columns != rows[:, None]) if self.itself else real


def relevance(queries: Tensor, items: Tensor, num_classes: int, *, itself: bool) -> Relevance:
    """The :class:`Relevance` of class numbers ``queries`` (N,) and ``items`` (M,)."""
    size = torch.bincount(items, minlength=num_classes)
    return Relevance(
        queries=queries,
        items=items,
        by_class=torch.argsort(items, stable=True),
        start=torch.cumsum(size, 0) - size,
        size=size,
        itself=itself,
    )


@dataclass(frozen=True)
class Hits:
    """The relevant items that were found for a block of B queries, as H (query, rank) pairs.

    Every retrieval measure of the papers is a function of these. Only as many are listed as the requested
    measures need, so a measure must not look further down than its card's ``depth``.

    Attributes:
        row: int64 (H,), which query of the block, 0..B-1.
        rank: int64 (H,), the item's place in that query's ranking, from 1.
        nth: int64 (H,), how many relevant items stand at or before that place, from 1.
        relevant: int64 (B,), how many relevant items the gallery holds for each query; never 0.
        gallery: How many items each query is ranked against.

    Example:
        >>> one = torch.tensor
        >>> hits = Hits(row=one([0, 0]), rank=one([1, 4]), nth=one([1, 2]), relevant=one([2]), gallery=9)
        >>> hits.total(hits.nth / hits.rank, hits.rank <= 4)
        tensor([1.5000], dtype=torch.float64)
    """

    row: Tensor
    rank: Tensor
    nth: Tensor
    relevant: Tensor
    gallery: int

    def total(self, values: Tensor, where: Tensor) -> Tensor:
        """The sum of ``values`` (H,) over each query's hits that satisfy ``where`` (H,); float64 (B,)."""
        sums = torch.zeros(len(self.relevant), dtype=torch.float64, device=self.row.device)
        return sums.index_add_(0, self.row, torch.where(where, values.double(), 0.0))

    def count(self, where: Tensor) -> Tensor:
        """How many of each query's hits satisfy ``where`` (H,); float64 (B,)."""
        return self.total(torch.ones_like(self.rank), where)
