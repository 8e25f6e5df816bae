"""Filtered search: exact ranks of all relevant items, at about the cost of one float32 product.

For each block of queries, one float32 matrix product gives approximate similarities. They suffice to discard
almost all items: an item can change a metric only if it ranks before a relevant item and within the metric's
depth. The few candidates left are sorted. Where float32 cannot decide their order, distances are computed
again in float64. Where little can be discarded, :mod:`levelfield.metrics._exact` sorts the whole gallery. The
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
from levelfield.metrics._registry import ResolvedMetric
from levelfield.metrics._relevance import Relevance, RelevantHits, hidden_cells
from levelfield.metrics._vectors import NormalizedVectors, rounding_error_bound, row_blocks

CHUNK = 32  # consecutive items; the first filter compares only the largest similarity of each chunk
MAX_CANDIDATES = 1 << 21  # the sort key of `by_row_then_similarity` has 21 bits for them
MAX_ROWS = 1 << 10


@dataclass(frozen=True)
class SearchRequest:
    """Queries, gallery and metrics of one search.

    Attributes:
        queries: The queries.
        gallery: The gallery.
        relevance: Relevant items of each query.
        metrics: Retrieval metrics; they set the search depth.
        memory: Bytes that one block of similarities may take.
    """

    queries: NormalizedVectors
    gallery: NormalizedVectors
    relevance: Relevance
    metrics: Sequence[ResolvedMetric]
    memory: int

    @property
    def ranked_items(self) -> int:
        """Number of items that a query without ignored items is ranked against."""
        return len(self.gallery) - int(self.relevance.exclude_self)

    def depths(self, rows: Tensor) -> list[tuple[Tensor, bool]]:
        """Return each kind of metric's depth (B,) for queries ``rows``, and if only the first hit counts.

        No depth is larger than the number of items that the query is ranked against.
        """
        relevant = self.relevance.relevant[rows].clamp(min=1)
        ranked = torch.full_like(relevant, self.ranked_items)
        if self.relevance.ignored is not None:
            ranked = (ranked - self.relevance.ignored.count[rows]).clamp(min=1)
        wanted = {(m.k if m.card.depth == "k" else m.card.depth, m.card.first) for m in self.metrics}
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
                    deep = ranked
            depths.append((torch.minimum(deep, ranked), first))
        return depths


def search_exact(request: SearchRequest, rows: Tensor) -> Iterator[tuple[Tensor, RelevantHits]]:
    """Yield blocks of queries ``rows`` with their hits; each query has at least one relevant item."""
    relevant = request.relevance.relevant
    rows = rows[
        torch.argsort(relevant[rows], stable=True)
    ]  # so that the queries of a block have similar depth
    padded = -(-len(request.gallery) // CHUNK) * CHUNK
    height = max(1, min(MAX_ROWS, len(rows), request.memory // (padded * 4)))
    request.gallery.cache()
    buffer = torch.empty(height, padded, device=rows.device)
    buffer[:, len(request.gallery) :] = -torch.inf
    for block in row_blocks(rows, height):
        hits = (
            None
            if _needs_full_sort(request, block)
            else _hits_by_filter(request, block, buffer[: len(block)])
        )
        if hits is not None:
            yield block, hits
        else:
            yield from hits_by_sorting(
                request.queries, request.gallery, request.relevance, block, memory=request.memory
            )


def _needs_full_sort(request: SearchRequest, block: Tensor) -> bool:
    """Return whether so many items matter that the filter would keep a large part of the gallery."""
    most = min(request.ranked_items // 4, MAX_CANDIDATES // len(block))
    return any(int(deep.max()) > most and not first for deep, first in request.depths(block))


def _hits_by_filter(request: SearchRequest, block: Tensor, out: Tensor) -> RelevantHits | None:
    """Return the hits of one block; None if too many items are too close for float32."""
    relevance, slack = request.relevance, 2 * rounding_error_bound(request.queries.source.shape[1] + 1)
    similarities = _similarities(request, block, out)
    peaks = similarities.view(len(block), -1, CHUNK).amax(2)
    threshold = _similarity_thresholds(request, block, similarities, peaks) - slack
    found = _above_threshold(similarities, peaks, threshold, most=min(MAX_CANDIDATES, out.numel() // 3))
    if found is None:
        return None
    row, item, similarity = found
    query = block[row]
    is_hit = relevance.is_hit(query, item)
    candidates = Candidates(row=row, query=query, item=item, is_hit=is_hit, similarity=similarity)
    candidates = _order_candidates(candidates, request.queries, request.gallery, slack=slack)
    return hits_in_order(candidates, relevance.relevant[block], gallery=request.ranked_items)


def _similarities(request: SearchRequest, block: Tensor, out: Tensor) -> Tensor:
    """Fill ``out`` (B, padded) with float32 similarities; items that a query must not find are -inf."""
    queries, items = request.queries.queries(block), len(request.gallery)
    piece = max(1, request.memory // (4 * queries.shape[1]))
    for start in range(0, items, piece):
        stop = min(start + piece, items)
        torch.mm(queries, request.gallery.items(start, stop).T, out=out[:, start:stop])
    out[hidden_cells(request.relevance, block)] = -torch.inf
    return out


def _similarity_thresholds(
    request: SearchRequest, block: Tensor, similarities: Tensor, peaks: Tensor
) -> Tensor:
    """Return for each query (B,) a similarity below which no item can change a metric."""
    columns, real = request.relevance.columns(block)
    wanted = similarities.gather(1, columns)
    best = wanted.where(real, -torch.inf).amax(1)
    worst = wanted.where(real, torch.inf).amin(1)
    threshold = torch.full_like(best, torch.inf)
    for deep, first in request.depths(block):
        lowest = best if first else worst
        # The k-th largest peak is a lower bound of the k-th largest similarity; tight if there are many more
        # peaks.
        few = int(deep.max()) <= peaks.shape[1] // 2
        if few or not first:
            lowest = torch.maximum(lowest, nth_largest(peaks if few else similarities, deep))
        threshold = torch.minimum(threshold, lowest)
    return threshold


def _above_threshold(
    similarities: Tensor, peaks: Tensor, threshold: Tensor, *, most: int
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return row, column and value of all similarities (B, M) that reach their row's ``threshold`` (B,).

    If they lie in few chunks, only these are scanned. None if there are more than ``most``: counting them is
    much faster than listing them.
    """
    high = peaks >= threshold[:, None]
    chunks = int(high.sum())
    if chunks > most:
        return None
    if chunks * CHUNK > similarities.numel() // 16:
        mask = similarities >= threshold[:, None]
        if int(mask.sum()) > most:
            return None
        row, item = rows_and_columns(mask)
        return row, item, similarities[row, item]
    row, chunk = rows_and_columns(high)
    values = similarities.view(-1, CHUNK)[row * peaks.shape[1] + chunk]
    at, offset = rows_and_columns(values >= threshold[row][:, None])
    if len(at) > most:
        return None
    return row[at], chunk[at] * CHUNK + offset, values[at, offset]


def _order_candidates(
    candidates: Candidates, queries: NormalizedVectors, gallery: NormalizedVectors, *, slack: float
) -> Candidates:
    """Return the candidates by query, then nearest first; in a tie, irrelevant items come first.

    Approximate similarities at most ``slack`` apart may be in the wrong order. The distances of a run of such
    neighbors are computed again in float64. A run of only relevant or only irrelevant items needs no order:
    no rank depends on it.
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


# Selection and sorting use NumPy on the CPU, several times faster there than torch, and torch elsewhere.


def nth_largest(values: Tensor, nth: Tensor) -> Tensor:
    """Return the nth largest value (B,) of each row of ``values`` (B, M), with ``nth`` (B,) from 1.

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
    """Return the rows and columns at which ``mask`` (B, M) is true, in reading order."""
    if mask.device.type != "cpu":
        row, column = mask.nonzero(as_tuple=True)
        return row, column
    flat = torch.from_numpy(np.flatnonzero(mask.numpy()))
    row = flat // mask.shape[1]
    return row, flat - row * mask.shape[1]


def by_row_then_similarity(row: Tensor, similarity: Tensor) -> Tensor:
    """Return the order (P,) by row (P,), then largest similarity (P,) first.

    The sort key of a pair is one integer: the row, the similarity's bits in sortable order, and the pair's
    number. It has room for ``MAX_CANDIDATES`` pairs of ``MAX_ROWS`` rows.

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
