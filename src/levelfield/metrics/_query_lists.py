"""Lists of gallery items per query, as sorted pairs: which items are relevant, which are ignored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.core.errors import UsageError


@dataclass(frozen=True)
class QueryItems:
    """Pairs of a query and a gallery item, sorted.

    Attributes:
        keys: int64 (P,), ``query * num_items + item``, rising.
        start: int64 (N + 1,), position of each query's first pair.
        num_items: Size M of the gallery.
    """

    keys: Tensor
    start: Tensor
    num_items: int

    @property
    def count(self) -> Tensor:
        """Number of items of each query, int64 (N,)."""
        return self.start[1:] - self.start[:-1]

    def contains(self, query: Tensor, item: Tensor) -> Tensor:
        """Return for pairs of a query and an item, both of one shape, whether they are listed."""
        if not len(self.keys):
            return torch.zeros_like(item, dtype=torch.bool)
        wanted = (query * self.num_items + item).contiguous()
        at = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        return self.keys[at] == wanted

    def cells(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pairs of the queries ``rows`` (B,): the number in the block, and the item."""
        columns, real = self.columns(rows)
        row = real.nonzero()[:, 0]
        return row, columns[real]

    def columns(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the items of queries ``rows`` (B,), int64 (B, W), and a mask of valid ones.

        W is the length of the longest list in the block, and at least 1.
        """
        size = self.count[rows][:, None]
        position = torch.arange(max(1, int(size.max())), device=rows.device)[None, :]
        real = position < size
        if not len(self.keys):
            return torch.zeros_like(position).expand_as(real), real
        keys = self.keys[(self.start[rows][:, None] + position).where(real, 0)]
        return (keys - rows[:, None] * self.num_items).where(real, 0), real

    def select(self, keep: Tensor) -> QueryItems:
        """Return the pairs for which ``keep`` (P,) is true."""
        return _from_keys(self.keys[keep], len(self.start) - 1, self.num_items)

    def to(self, device: torch.device) -> QueryItems:
        """Return the same lists on a device."""
        return QueryItems(self.keys.to(device), self.start.to(device), self.num_items)


def read_lists(name: str, lists: Any, *, queries: int, items: int) -> QueryItems:
    """Return the lists of gallery rows, one per query; raise UsageError if they are not valid.

    Args:
        name: Name of the argument, for errors.
        lists: N sequences of row numbers of the gallery.
        queries: Number N of queries.
        items: Number M of gallery items.

    Example:
        >>> found = read_lists("relevant", [[2, 0], []], queries=2, items=3)
        >>> found.keys, found.count
        (tensor([0, 2]), tensor([2, 0]))
    """
    if isinstance(lists, (str, bytes)) or not hasattr(lists, "__len__"):
        raise UsageError(f"{name} is a {type(lists).__name__}; give one list of gallery rows per query")
    if len(lists) != queries:
        raise UsageError(f"{name} has {len(lists)} lists but there are {queries} queries; give one each")
    flat, sizes = _flatten(name, lists)
    owner = np.repeat(np.arange(queries), sizes)
    wrong = np.flatnonzero((flat < 0) | (flat >= items))
    if len(wrong):
        query, item = int(owner[wrong[0]]), int(flat[wrong[0]])
        raise UsageError(
            f"{name} of query {query} lists item {item}, which is not in the gallery of {items} items; "
            "give row numbers of the gallery, from 0"
        )
    keys = np.sort(owner * items + flat)
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if len(twice):
        query, item = divmod(int(keys[twice[0]]), items)
        raise UsageError(f"{name} of query {query} lists item {item} twice; remove one of them")
    return _from_keys(torch.from_numpy(keys), queries, items)


def _flatten(name: str, lists: Sequence[Any]) -> tuple[np.ndarray[Any, Any], list[int]]:
    plain = [each.tolist() if isinstance(each, (Tensor, np.ndarray)) else each for each in lists]
    try:
        sizes = [len(each) for each in plain]
        flat = list(chain.from_iterable(plain))
    except TypeError as error:
        raise UsageError(f"{name} is not a list of lists; give one list of gallery rows per query") from error
    try:
        whole = not any(isinstance(item, (bool, str)) or int(item) != item for item in flat)
        rows = np.array(flat if whole else [], dtype=np.int64)
    except (TypeError, ValueError, OverflowError):  # NaN, infinity, objects, numbers beyond 64 bits
        whole = False
    if not whole:
        raise UsageError(f"{name} holds something else than whole numbers; give row numbers of the gallery")
    return rows, sizes


def _from_keys(keys: Tensor, queries: int, items: int) -> QueryItems:
    edges = torch.arange(queries + 1, device=keys.device) * items
    return QueryItems(keys, torch.searchsorted(keys, edges), items)
