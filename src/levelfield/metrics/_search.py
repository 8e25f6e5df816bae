"""Exact ranks of all relevant items, query block by query block, in bounded memory.

For each block of queries one float32 matrix product gives approximate similarities. They are good enough
to discard almost everything: an item can only matter to a measure if it stands before a relevant item and
within the measure's depth. The few candidates left are put in order; those too close to call in float32 are
measured again in float64. Where little can be discarded, :mod:`levelfield.metrics._sorting` takes over.

Ties: an irrelevant item whose distance is at most 1e-12 more than that of a relevant one (in units of unit
vectors, or of the gallery's radius) is ranked before it. So ties never flatter, and neither the order of
rows nor the size of blocks changes a score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.metrics._candidates import Candidates, in_order, ranked
from levelfield.metrics._hits import Hits
from levelfield.metrics._labels import Relevance
from levelfield.metrics._registry import Measure
from levelfield.metrics._select import MOST, ROWS, nth_largest, where
from levelfield.metrics._sorting import hits_by_sorting
from levelfield.metrics._vectors import Vectors, rounding, steps

CHUNK = 32  # neighbouring items whose largest similarity stands for them all in the first sieve


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
        found = []
        for depth, first in sorted(wanted, key=str):
            match depth:
                case "r":
                    deep = relevant
                case "r+1":
                    deep = relevant + 1
                case int():
                    deep = torch.full_like(relevant, depth)
                case _:
                    deep = torch.full_like(relevant, self.ranked_items)
            found.append((deep.clamp(max=self.ranked_items), first))
        return found


def search(task: Task, rows: Tensor) -> Iterator[tuple[Tensor, Hits]]:
    """The hits of queries ``rows`` (each with at least one relevant item), block by block with their rows."""
    relevant = task.relevance.relevant
    rows = rows[torch.argsort(relevant[rows], stable=True)]  # blocks of like depth, whatever the class sizes
    padded = -(-len(task.gallery) // CHUNK) * CHUNK
    height = max(1, min(ROWS, len(rows), task.memory // (padded * 4)))
    task.gallery.keep()
    buffer = torch.empty(height, padded, device=rows.device)
    buffer[:, len(task.gallery) :] = -torch.inf
    for block in steps(rows, height):
        hits = None if _is_deep(task, relevant[block]) else _hits_by_sieve(task, block, buffer[: len(block)])
        if hits is not None:
            yield block, hits
        else:
            yield from hits_by_sorting(task.queries, task.gallery, task.relevance, block, memory=task.memory)


def _is_deep(task: Task, relevant: Tensor) -> bool:
    """Whether so many items matter that the sieve would keep a good part of the gallery."""
    chunks = len(task.gallery) // CHUNK
    return any(int(deep.max()) > chunks // 2 and not first for deep, first in task.depths(relevant))


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


def _hits_by_sieve(task: Task, block: Tensor, out: Tensor) -> Hits | None:
    """The hits of one block; None if too many items are too close to be told apart in float32."""
    relevance, slack = task.relevance, 2 * rounding(task.queries.source.shape[1] + 1)
    near = _similarities(task, block, out)
    peaks = near.view(len(block), -1, CHUNK).amax(2)
    floor = _floor(task, block, near, peaks) - slack
    row, item, value = _above(near, peaks, floor)
    if len(row) > MOST:
        return None
    query = block[row]
    found = Candidates(
        row=row, query=query, item=item, is_hit=relevance.items[item] == relevance.queries[query], value=value
    )
    found = in_order(found, task.queries, task.gallery, slack=slack)
    return ranked(found, relevance.relevant[block], gallery=task.ranked_items)


def _above(near: Tensor, peaks: Tensor, floor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row, column and value of all similarities ``near`` (B, M) that reach their row's ``floor`` (B,).

    If they lie in few chunks only these are looked into; more than ``MOST`` are not worth listing.
    """
    row, chunk = where(peaks >= floor[:, None])
    if len(row) > MOST:
        return row, row, row
    if len(row) * CHUNK > near.numel() // 16:
        row, item = where(near >= floor[:, None])
        return row, item, near[row, item]
    values = near.view(-1, CHUNK)[row * peaks.shape[1] + chunk]
    at, offset = where(values >= floor[row][:, None])
    return row[at], chunk[at] * CHUNK + offset, values[at, offset]


def _floor(task: Task, block: Tensor, near: Tensor, peaks: Tensor) -> Tensor:
    """For each query (B,) a similarity below which no item matters, whatever its kind."""
    columns, real = task.relevance.columns(block)
    wanted = near.gather(1, columns)
    best = wanted.where(real, -torch.inf).amax(1)
    worst = wanted.where(real, torch.inf).amin(1)
    floor = torch.full_like(best, torch.inf)
    for deep, first in task.depths(task.relevance.relevant[block]):
        lowest = best if first else worst
        if int(deep.max()) <= peaks.shape[1]:  # the k-th largest peak bounds the k-th largest item from below
            lowest = torch.maximum(lowest, nth_largest(peaks, deep))
        floor = torch.minimum(floor, lowest)
    return floor
