"""The sieve: exact ranks of all relevant items, block by block, at about the price of a float32 product.

For each block of queries one float32 matrix product gives approximate similarities. They are good enough
to discard almost everything: an item can only matter to a measure if it stands before a relevant item and
within the measure's depth. The few candidates left are put in order; those too close to call in float32 are
measured again in float64. Where little can be discarded, :mod:`levelfield.metrics._exact` takes over; the
rule for ties is there too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from levelfield.metrics._exact import (
    Candidates,
    distances_of_pairs,
    exact_order,
    hits_by_sorting,
    hits_in_order,
)
from levelfield.metrics._registry import Measure
from levelfield.metrics._relevance import Hits, Relevance
from levelfield.metrics._vectors import Vectors, rounding, row_blocks

CHUNK = 32  # neighbouring items whose largest similarity stands for them all in the first sieve
MOST_CANDIDATES = 1 << 21  # what one sorting key of `by_row_then_similarity` has room for
MOST_ROWS = 1 << 10


@dataclass(frozen=True)
class Task:
    """Who is looked for, among whom, and how many bytes one block of similarities may take."""

    queries: Vectors
    gallery: Vectors
    relevance: Relevance
    measures: Sequence[Measure]
    memory: int

    @property
    def ranked_items(self) -> int:
        """How many items each query is ranked against."""
        return len(self.gallery) - int(self.relevance.itself)

    def depths(self, relevant: Tensor) -> list[tuple[Tensor, bool]]:
        """For each kind of measure: how deep it looks (B,), and whether for the first relevant item only."""
        wanted = {(m.k if m.card.depth == "k" else m.card.depth, m.card.first) for m in self.measures}
        depths = []
        for depth, first in sorted(wanted, key=str):
            match depth:
                case "r":
                    deep = relevant
                case "r+1":
                    deep = relevant + 1
                case int():
                    deep = torch.full_like(relevant, min(depth, self.ranked_items))
                case _:
                    deep = torch.full_like(relevant, self.ranked_items)
            depths.append((deep.clamp(max=self.ranked_items), first))
        return depths


def search(task: Task, rows: Tensor) -> Iterator[tuple[Tensor, Hits]]:
    """The hits of queries ``rows`` (each with at least one relevant item), block by block with their rows."""
    relevant = task.relevance.relevant
    rows = rows[torch.argsort(relevant[rows], stable=True)]  # blocks of like depth, whatever the class sizes
    padded = -(-len(task.gallery) // CHUNK) * CHUNK
    height = max(1, min(MOST_ROWS, len(rows), task.memory // (padded * 4)))
    task.gallery.keep()
    buffer = torch.empty(height, padded, device=rows.device)
    buffer[:, len(task.gallery) :] = -torch.inf
    for block in row_blocks(rows, height):
        hits = None if _is_deep(task, relevant[block]) else _hits_by_sieve(task, block, buffer[: len(block)])
        if hits is not None:
            yield block, hits
        else:
            yield from hits_by_sorting(task.queries, task.gallery, task.relevance, block, memory=task.memory)


def _is_deep(task: Task, relevant: Tensor) -> bool:
    """Whether so many items matter that the sieve would keep a good part of the gallery."""
    most = min(task.ranked_items // 4, MOST_CANDIDATES // len(relevant))
    return any(int(deep.max()) > most and not first for deep, first in task.depths(relevant))


def _hits_by_sieve(task: Task, block: Tensor, out: Tensor) -> Hits | None:
    """The hits of one block; None if too many items are too close to be told apart in float32."""
    relevance, slack = task.relevance, 2 * rounding(task.queries.source.shape[1] + 1)
    similarities = _similarities(task, block, out)
    peaks = similarities.view(len(block), -1, CHUNK).amax(2)
    floor = _floor(task, block, similarities, peaks) - slack
    row, item, similarity = _above(similarities, peaks, floor)
    if len(row) > min(MOST_CANDIDATES, out.numel() // 3):
        return None
    query = block[row]
    is_hit = relevance.items[item] == relevance.queries[query]
    candidates = Candidates(row=row, query=query, item=item, is_hit=is_hit, similarity=similarity)
    candidates = _in_order(candidates, task.queries, task.gallery, slack=slack)
    return hits_in_order(candidates, relevance.relevant[block], gallery=task.ranked_items)


def _similarities(task: Task, block: Tensor, out: Tensor) -> Tensor:
    """Fill ``out`` (B, padded) with float32 similarities; what a query must not find is -inf."""
    queries, items = task.queries.queries(block), len(task.gallery)
    piece = max(1, task.memory // (4 * queries.shape[1]))
    for start in range(0, items, piece):
        stop = min(start + piece, items)
        torch.mm(queries, task.gallery.items(start, stop).T, out=out[:, start:stop])
    if task.relevance.itself:
        out[torch.arange(len(block), device=block.device), block] = -torch.inf
    return out


def _floor(task: Task, block: Tensor, similarities: Tensor, peaks: Tensor) -> Tensor:
    """For each query (B,) a similarity below which no item matters, whatever its kind."""
    columns, real = task.relevance.columns(block)
    wanted = similarities.gather(1, columns)
    best = wanted.where(real, -torch.inf).amax(1)
    worst = wanted.where(real, torch.inf).amin(1)
    floor = torch.full_like(best, torch.inf)
    for deep, first in task.depths(task.relevance.relevant[block]):
        lowest = best if first else worst
        # The k-th largest peak bounds the k-th largest item from below: well, where there are many more peaks.
        few = int(deep.max()) <= peaks.shape[1] // 2
        if few or not first:
            lowest = torch.maximum(lowest, nth_largest(peaks if few else similarities, deep))
        floor = torch.minimum(floor, lowest)
    return floor


def _above(similarities: Tensor, peaks: Tensor, floor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row, column and value of all similarities (B, M) that reach their row's ``floor`` (B,).

    If they lie in few chunks only these are looked into; more than ``MOST_CANDIDATES`` are not worth listing.
    """
    row, chunk = rows_and_columns(peaks >= floor[:, None])
    if len(row) > MOST_CANDIDATES:
        return row, row, row
    if len(row) * CHUNK > similarities.numel() // 16:
        row, item = rows_and_columns(similarities >= floor[:, None])
        return row, item, similarities[row, item]
    values = similarities.view(-1, CHUNK)[row * peaks.shape[1] + chunk]
    at, offset = rows_and_columns(values >= floor[row][:, None])
    return row[at], chunk[at] * CHUNK + offset, values[at, offset]


def _in_order(candidates: Candidates, queries: Vectors, gallery: Vectors, *, slack: float) -> Candidates:
    """The candidates by query, then nearest first, ties with irrelevant items first.

    Approximate similarities that are at most ``slack`` apart may be in the wrong order; what stands in a run
    of such neighbours is measured anew in float64. A run of only relevant or only irrelevant items needs no
    order: no rank depends on it.
    """
    candidates = candidates.select(by_row_then_similarity(candidates.row, candidates.similarity))
    row, similarity = candidates.row, candidates.similarity
    fresh = torch.ones_like(candidates.is_hit)
    fresh[1:] = (row[1:] != row[:-1]) | (similarity[:-1] - similarity[1:] > slack)
    run = torch.cumsum(fresh, 0) - 1
    size = torch.bincount(run)
    hits = torch.bincount(run[candidates.is_hit], minlength=len(size))
    unsure = ((hits > 0) & (hits < size))[run].nonzero()[:, 0]
    some = candidates.select(unsure)
    again = exact_order(some, run[unsure], distances_of_pairs(queries, gallery, some.query, some.item))
    order = torch.arange(len(run), device=run.device)
    order[unsure] = unsure[again]
    return candidates.select(order)


# Selecting and ordering: on the CPU by NumPy (several times faster there than torch), elsewhere by torch.


def nth_largest(values: Tensor, nth: Tensor) -> Tensor:
    """For each row of ``values`` (B, M) its nth largest value (B,), with ``nth`` (B,) from 1.

    Example:
        >>> nth_largest(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([2]))
        tensor([2.])
    """
    deepest = int(nth.max())
    if values.device.type != "cpu":
        return values.topk(deepest, dim=1).values.gather(1, nth[:, None] - 1)[:, 0]
    top = np.partition(values.numpy(), values.shape[1] - deepest, axis=1)[:, values.shape[1] - deepest :]
    top.sort(axis=1)
    return torch.from_numpy(top).gather(1, deepest - nth[:, None])[:, 0]


def rows_and_columns(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The rows and columns at which ``mask`` (B, M) is true, in reading order."""
    if mask.device.type != "cpu":
        row, column = mask.nonzero(as_tuple=True)
        return row, column
    flat = torch.from_numpy(np.flatnonzero(mask.numpy()))
    row = flat // mask.shape[1]
    return row, flat - row * mask.shape[1]


def by_row_then_similarity(row: Tensor, similarity: Tensor) -> Tensor:
    """The order (P,) by row (P,), then largest similarity (P,) first.

    One whole number per pair holds the row, the bits of the similarity in an order that sorts as it does, and
    the pair's number: sorting these is sorting the pairs. There is room for ``MOST_CANDIDATES`` pairs of
    ``MOST_ROWS`` rows.

    Example:
        >>> by_row_then_similarity(torch.tensor([1, 0, 0]), torch.tensor([5.0, -1.0, 2.0]))
        tensor([2, 1, 0])
    """
    bits = similarity.float().view(torch.int32)
    rising = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    number = torch.arange(len(row), device=row.device)
    key = (row << 53) | ((0x7FFFFFFF - rising) << 21) | number
    if key.device.type == "cpu":
        key.numpy().sort()
    else:
        key = key.sort().values
    return key & ((1 << 21) - 1)
