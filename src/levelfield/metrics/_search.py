"""Exact ranks of all relevant items, query block by query block, in bounded memory.

For each block of queries one float32 matrix product gives approximate similarities. They are good enough
to discard almost everything: an item can only matter to a measure if it stands before a relevant item and
within the measure's depth. The few candidates left are put in order; those too close to call in float32 are
measured again in float64. Where little can be discarded, :mod:`levelfield.metrics._sorting` takes over.

Ties: an irrelevant item whose distance is at most 1e-12 more than that of a relevant one (unit vectors, or the
gallery's radius, being 1) is ranked before it. So ties never flatter, and the order of rows does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.metrics._hits import Hits
from levelfield.metrics._labels import Relevance
from levelfield.metrics._registry import Measure
from levelfield.metrics._sorting import TIE, hits_by_sorting, measured
from levelfield.metrics._vectors import Vectors, rounding

CHUNK = 32  # neighbouring items whose largest similarity stands for them all in the first sieve
MAX_BLOCK = 1024


@dataclass(frozen=True)
class Task:
    """Who is looked for, among whom, and how much memory one block of similarities may take."""

    queries: Vectors
    gallery: Vectors
    relevance: Relevance
    measures: Sequence[Measure]
    memory: int


def search(task: Task, rows: Tensor) -> Iterator[tuple[Tensor, Hits]]:
    """The hits of queries ``rows`` (each with at least one relevant item), block by block with their rows."""
    relevant = task.relevance.relevant
    rows = rows[torch.argsort(relevant[rows], stable=True)]  # blocks of like depth, whatever the class sizes
    items = len(task.gallery)
    padded = -(-items // CHUNK) * CHUNK
    height = max(1, min(MAX_BLOCK, len(rows), task.memory // (padded * 4)))
    task.gallery.keep()
    buffer = torch.full((height, padded), -torch.inf, device=rows.device)
    for start in range(0, len(rows), height):
        block = rows[start : start + height]
        hits = None
        if not _is_deep(task, relevant[block]):
            hits = _hits_by_sieve(task, block, buffer[: len(block)])
        if hits is not None:
            yield block, hits
        else:
            yield from hits_by_sorting(task.queries, task.gallery, task.relevance, block, memory=task.memory)


def _depths(task: Task, relevant: Tensor) -> list[tuple[Tensor, bool]]:
    """For each kind of measure: how deep it looks for each query (B,), and whether for the first hit only."""
    items = len(task.gallery) - int(task.relevance.itself)
    wanted = {(m.k if m.card.depth == "k" else m.card.depth, m.card.first) for m in task.measures}
    depths = []
    for depth, first in sorted(wanted, key=str):
        match depth:
            case "r":
                deep = relevant
            case "r+1":
                deep = relevant + 1
            case "all":
                deep = torch.full_like(relevant, items)
            case _:
                deep = torch.full_like(relevant, int(depth or 1))
        depths.append((deep.clamp(max=items), first))
    return depths


def _is_deep(task: Task, relevant: Tensor) -> bool:
    """Whether so many items matter that the sieve would keep a good part of the gallery."""
    chunks = len(task.gallery) // CHUNK
    return any(int(deep.max()) > chunks // 2 and not first for deep, first in _depths(task, relevant))


def _similarities(task: Task, block: Tensor, out: Tensor) -> Tensor:
    """Fill ``out`` (B, padded) with float32 similarities; what a query must not find is -inf."""
    queries, items = task.queries.queries(block), len(task.gallery)
    piece = max(1, min(items, task.memory // (4 * queries.shape[1])))
    for start in range(0, items, piece):
        stop = min(start + piece, items)
        torch.mm(queries, task.gallery.items(start, stop).T, out=out[:, start:stop])
    out[:, items:] = -torch.inf
    if task.relevance.itself:
        out[torch.arange(len(block), device=block.device), block] = -torch.inf
    return out


def _hits_by_sieve(task: Task, block: Tensor, out: Tensor) -> Hits | None:
    """The hits of one block; None if too many items are too close to be told apart in float32."""
    relevance, slack = task.relevance, 2 * rounding(task.queries.source.shape[1] + 1)
    near = _similarities(task, block, out)
    columns, real = relevance.columns(block)
    wanted = near.gather(1, columns)
    best = wanted.where(real, -torch.inf).amax(1)
    worst = wanted.where(real, torch.inf).amin(1)
    peaks = near.view(len(block), -1, CHUNK).amax(2)
    floor = torch.full_like(best, torch.inf)
    for deep, first in _depths(task, relevance.relevant[block]):
        lowest = best if first else worst
        if (
            int(deep.max()) <= peaks.shape[1]
        ):  # the k-th largest peak is a lower bound of the k-th largest item
            kth = peaks.topk(int(deep.max()), dim=1).values.gather(1, deep[:, None] - 1)[:, 0]
            lowest = torch.maximum(lowest, kth)
        floor = torch.minimum(floor, lowest)
    floor = floor - slack
    row, chunk = (peaks >= floor[:, None]).nonzero(as_tuple=True)
    if len(row) * CHUNK > near.numel() // 2:
        return None
    values = near.view(len(block), -1, CHUNK)[row, chunk]
    at, offset = (values >= floor[row][:, None]).nonzero(as_tuple=True)
    row, item, value = row[at], chunk[at] * CHUNK + offset, values[at, offset]
    is_hit = relevance.items[item] == relevance.queries[block[row]]
    order = _in_order(task, block, row, item, value, is_hit, slack)
    return _ranked(row[order], is_hit[order], relevance.relevant[block], near_items(task))


def near_items(task: Task) -> int:
    """How many items each query is ranked against."""
    return len(task.gallery) - int(task.relevance.itself)


def _in_order(
    task: Task, block: Tensor, row: Tensor, item: Tensor, value: Tensor, is_hit: Tensor, slack: float
) -> Tensor:
    """The order of the candidates: by query, then nearest first, then irrelevant before relevant."""
    order = torch.argsort(value, descending=True)
    order = order[torch.argsort(row[order], stable=True)]
    row, value, is_hit = row[order], value[order], is_hit[order]
    fresh = torch.ones_like(is_hit)
    fresh[1:] = (row[1:] != row[:-1]) | (value[:-1] - value[1:] > slack)
    run = torch.cumsum(fresh, 0) - 1  # candidates of one run cannot be told apart in float32
    size = torch.bincount(run)
    hits = torch.bincount(run[is_hit], minlength=len(size))
    unsure = ((hits > 0) & (hits < size))[run].nonzero()[:, 0]  # a run of one kind needs no order
    if len(unsure):
        away = measured(task.queries, task.gallery, block[row[unsure]], item[order[unsure]])
        away = away + TIE * is_hit[unsure]
        again = torch.argsort(is_hit[unsure].int(), stable=True)
        again = again[torch.argsort(away[again], stable=True)]
        again = again[torch.argsort(run[unsure][again], stable=True)]
        order[unsure] = order[unsure[again]]
    return order


def _ranked(row: Tensor, is_hit: Tensor, relevant: Tensor, gallery: int) -> Hits:
    """Candidates in order, as hits."""
    count = torch.bincount(row, minlength=len(relevant))
    before = torch.cumsum(count, 0) - count
    place = torch.arange(1, len(row) + 1, device=row.device) - before[row]
    found = torch.cumsum(is_hit, 0)
    found_before = torch.cat([found.new_zeros(1), found])[before]
    row, place, nth = row[is_hit], place[is_hit], (found - found_before[row])[is_hit]
    return Hits(row=row, rank=place, nth=nth, relevant=relevant, gallery=gallery)
