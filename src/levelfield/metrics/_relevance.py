"""Relevant gallery items of each query, by class or by list, and the ranks at which a search found them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.metrics._query_lists import QueryItems


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


class Relevance(Protocol):
    """Relevant gallery items of each query, and the items that it is not ranked against.

    Hidden items are the query itself, if the queries are the gallery, and its ignored items. They are taken
    out of the ranking before any rank is counted.

    Attributes:
        relevant: int64 (N,), number of relevant items of each query.
        exclude_self: Whether the queries are the gallery, row for row; a query then does not find itself.
        ignored: Ignored items of each query; None if there are none.
    """

    @property
    def relevant(self) -> Tensor: ...

    @property
    def exclude_self(self) -> bool: ...

    @property
    def ignored(self) -> QueryItems | None: ...

    def columns(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the relevant gallery rows of queries ``rows`` (B,), int64 (B, W), and a mask of valid ones.

        W is the largest number in the block. Shorter rows are padded with any column, which is masked out.
        """
        ...

    def is_hit(self, query: Tensor, item: Tensor) -> Tensor:
        """Return for P pairs of a query (P,) and an item (P,) that is not hidden, if the item is relevant."""
        ...

    def mask_relevant(self, rows: Tensor, values: Tensor, fill: float) -> None:
        """Set the relevant items of queries ``rows`` (B,) in ``values`` (B, M) to ``fill``."""
        ...


@dataclass(frozen=True)
class ClassRelevance:
    """Relevance by class: the items of the query's class, except hidden ones.

    Attributes:
        queries: int64 (N,), class of each query.
        items: int64 (M,), class of each gallery item.
        by_class: int64 (M,), gallery rows sorted by class.
        start: int64 (C,), position of each class's first row in ``by_class``.
        size: int64 (C,), number of rows of each class.
        relevant: See :class:`Relevance`.
        exclude_self: See :class:`Relevance`.
        ignored: See :class:`Relevance`.
    """

    queries: Tensor
    items: Tensor
    by_class: Tensor
    start: Tensor
    size: Tensor
    relevant: Tensor
    exclude_self: bool
    ignored: QueryItems | None = None

    def columns(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the relevant gallery rows, and a mask; see :class:`Relevance`."""
        classes = self.queries[rows]
        size = self.size[classes][:, None]
        position = torch.arange(int(size.max()), device=rows.device)[None, :]
        real = position < size
        columns = self.by_class[(self.start[classes][:, None] + position).where(real, 0)]
        if self.exclude_self:
            real = real & (columns != rows[:, None])
        if self.ignored is not None:
            real = real & ~self.ignored.contains(rows[:, None].expand_as(columns), columns)
        return columns, real

    def is_hit(self, query: Tensor, item: Tensor) -> Tensor:
        """Return whether items are relevant; see :class:`Relevance`."""
        return self.items[item] == self.queries[query]

    def mask_relevant(self, rows: Tensor, values: Tensor, fill: float) -> None:
        """Set relevant items to ``fill``; see :class:`Relevance`."""
        values.masked_fill_(self.items[None, :] == self.queries[rows][:, None], fill)


@dataclass(frozen=True)
class ListRelevance:
    """Relevance by lists.

    Attributes:
        listed: Relevant items of each query, none of them hidden.
        exclude_self: See :class:`Relevance`.
        ignored: See :class:`Relevance`.
    """

    listed: QueryItems
    exclude_self: bool
    ignored: QueryItems | None = None

    @property
    def relevant(self) -> Tensor:
        """Number of relevant items of each query, int64 (N,)."""
        return self.listed.count

    def columns(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the relevant gallery rows, and a mask; see :class:`Relevance`."""
        return self.listed.columns(rows)

    def is_hit(self, query: Tensor, item: Tensor) -> Tensor:
        """Return whether items are relevant; see :class:`Relevance`."""
        return self.listed.contains(query, item)

    def mask_relevant(self, rows: Tensor, values: Tensor, fill: float) -> None:
        """Set relevant items to ``fill``; see :class:`Relevance`."""
        values[self.listed.cells(rows)] = fill


def hidden_cells(relevance: Relevance, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the hidden items of queries ``rows`` (B,): the number in the block, and the gallery row."""
    own = torch.arange(len(rows), device=rows.device)
    parts = [(own, rows)] if relevance.exclude_self else []
    if relevance.ignored is not None:
        parts.append(relevance.ignored.cells(rows))
    if not parts:
        return own[:0], rows[:0]
    row, item = (torch.cat(each) for each in zip(*parts, strict=True))
    return row, item


def build_relevance(
    queries: Tensor,
    items: Tensor,
    num_classes: int,
    *,
    exclude_self: bool,
    ignored: QueryItems | None = None,
) -> ClassRelevance:
    """Return the relevance of class numbers ``queries`` (N,) and ``items`` (M,)."""
    size = torch.bincount(items, minlength=num_classes)
    relevant = size[queries] - int(exclude_self)
    if ignored is not None:
        ignored = without_self(ignored) if exclude_self else ignored
        query, item = ignored.keys // ignored.num_items, ignored.keys % ignored.num_items
        same = queries[query] == items[item]
        relevant = relevant - torch.bincount(query[same], minlength=len(queries))
    return ClassRelevance(
        queries=queries,
        items=items,
        by_class=torch.argsort(items, stable=True),
        start=torch.cumsum(size, 0) - size,
        size=size,
        relevant=relevant,
        exclude_self=exclude_self,
        ignored=ignored,
    )


def list_relevance(listed: QueryItems, ignored: QueryItems | None, *, exclude_self: bool) -> ListRelevance:
    """Return the relevance of lists; raise UsageError if a list names an item as relevant and as ignored."""
    if exclude_self:
        listed, ignored = without_self(listed), None if ignored is None else without_self(ignored)
    if ignored is not None:
        query, item = listed.keys // listed.num_items, listed.keys % listed.num_items
        both = ignored.contains(query, item).nonzero()
        if len(both):
            at = int(both[0])
            raise UsageError(
                f"query {int(query[at])} lists item {int(item[at])} as relevant and as ignored; "
                "remove it from one of the two lists"
            )
    return ListRelevance(listed, exclude_self, ignored)


def without_self(lists: QueryItems) -> QueryItems:
    """Return the lists without the queries themselves, where the queries are the gallery."""
    return lists.select(lists.keys // lists.num_items != lists.keys % lists.num_items)


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
        gallery: Number of items that a query without ignored items is ranked against.

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
