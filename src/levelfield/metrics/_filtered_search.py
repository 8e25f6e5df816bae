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

import torch
from torch import Tensor

from levelfield.metrics._exact import distances_of_pairs, exact_order, hits_by_sorting, hits_in_order
from levelfield.metrics._registry import ResolvedMetric
from levelfield.metrics._relevance import Relevance, RelevantHits, hidden_cells
from levelfield.metrics._selection import (
    MAX_CANDIDATES,
    MAX_ROWS,
    by_row_then_similarity,
    count_true,
    nth_largest,
    rows_and_columns,
)
from levelfield.metrics._vectors import NormalizedVectors, rounding_error_bound, row_blocks

CHUNK = 32  # consecutive items; the first filter compares only the largest similarity of each chunk


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
    request.gallery.cache()
    slack = 2 * rounding_error_bound(request.queries.source.shape[1] + 1)
    (buffer,) = block_buffers(request, rows, 1)
    for block in query_blocks(request, rows, len(buffer)):
        out = buffer[: len(block)]
        if not needs_full_sort(request, block):
            fill_similarities(request, block, out)
        yield from search_block(request, block, out, slack=slack)


def block_buffers(request: SearchRequest, rows: Tensor, count: int) -> list[Tensor]:
    """Return buffers (B, padded) for the similarities of a block; their padding is -inf."""
    padded = -(-len(request.gallery) // CHUNK) * CHUNK
    height = max(1, min(MAX_ROWS, len(rows), request.memory // (padded * 4 * count)))
    buffers = [torch.empty(height, padded, device=rows.device) for _ in range(count)]
    for buffer in buffers:
        buffer[:, len(request.gallery) :] = -torch.inf
    return buffers


def query_blocks(request: SearchRequest, rows: Tensor, height: int) -> Iterator[Tensor]:
    """Yield ``rows`` in blocks whose queries have similar depth."""
    yield from row_blocks(rows[torch.argsort(request.relevance.relevant[rows], stable=True)], height)


def search_block(
    request: SearchRequest, block: Tensor, similarities: Tensor, *, slack: float
) -> Iterator[tuple[Tensor, RelevantHits]]:
    """Yield parts of a block of queries with their hits.

    ``similarities`` (B, padded) are approximate: two that differ by more than ``slack`` are in the right
    order. They are not read where the whole gallery is sorted.
    """
    hits = None
    if not needs_full_sort(request, block):
        hits = _hits_by_filter(request, block, similarities, slack)
    if hits is not None:
        yield block, hits
    else:
        yield from hits_by_sorting(
            request.queries, request.gallery, request.relevance, block, memory=request.memory
        )


def needs_full_sort(request: SearchRequest, block: Tensor) -> bool:
    """Return whether so many items matter that the filter would keep a large part of the gallery."""
    most = min(request.ranked_items // 4, MAX_CANDIDATES // len(block))
    return any(int(deep.max()) > most and not first for deep, first in request.depths(block))


def _hits_by_filter(
    request: SearchRequest, block: Tensor, similarities: Tensor, slack: float
) -> RelevantHits | None:
    """Return the hits of one block; None if too many items are too close for float32."""
    peaks = similarities.view(len(block), -1, CHUNK).amax(2)
    threshold = _similarity_thresholds(request, block, similarities, peaks) - slack
    most = min(MAX_CANDIDATES, similarities.numel() // 3)
    found = _above_threshold(similarities, peaks, threshold, most=most)
    if found is None:
        return None
    row, item, similarity = found
    is_hit = _hits_nearest_first(request, block, row, item, similarity, slack=slack)
    return hits_in_order(row, is_hit, request.relevance.relevant[block], gallery=request.ranked_items)


def fill_similarities(request: SearchRequest, block: Tensor, out: Tensor) -> None:
    """Fill ``out`` (B, padded) with float32 similarities; items that a query must not find are -inf."""
    queries, items = request.queries.queries(block), len(request.gallery)
    piece = max(1, request.memory // (4 * queries.shape[1]))
    for start in range(0, items, piece):
        stop = min(start + piece, items)
        torch.mm(queries, request.gallery.items(start, stop).T, out=out[:, start:stop])
    out[hidden_cells(request.relevance, block)] = -torch.inf


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
    chunks = count_true(high)
    if chunks > most:
        return None
    if chunks * CHUNK > similarities.numel() // 4:
        mask = similarities >= threshold[:, None]
        if count_true(mask) > most:
            return None
        row, item = rows_and_columns(mask)
        return row, item, similarities[row, item]
    row, chunk = rows_and_columns(high)
    values = similarities.view(-1, CHUNK).index_select(0, row * peaks.shape[1] + chunk)
    at, offset = rows_and_columns(values >= threshold[row][:, None])
    if len(at) > most:
        return None
    return row[at], chunk[at] * CHUNK + offset, values[at, offset]


def _hits_nearest_first(
    request: SearchRequest, block: Tensor, row: Tensor, item: Tensor, similarity: Tensor, *, slack: float
) -> Tensor:
    """Return for P candidates, by row and then nearest first, if each is relevant; bool (P,).

    In a tie, irrelevant items come first. Approximate similarities at most ``slack`` apart may be in the
    wrong order. The distances of a run of such neighbors are computed again in float64. A run of only
    relevant or only irrelevant items needs no order: no rank depends on it.

    Args:
        request: The search.
        block: int64 (B,), queries of the block.
        row: int64 (P,), number in the block of each candidate's query; rising.
        item: int64 (P,), the candidate's gallery row.
        similarity: float32 (P,), approximate similarity.
        slack: Difference beyond which similarities are in the right order.
    """
    order = by_row_then_similarity(row, similarity)
    item, similarity = item[order], similarity[order]
    is_hit = request.relevance.is_hit(block[row], item)
    close = torch.zeros_like(is_hit)  # to the candidate before, of the same query
    close[1:] = (row[1:] == row[:-1]) & (similarity[:-1] - similarity[1:] <= slack)
    linked = close.clone()
    linked[:-1] |= close[1:]
    at = linked.nonzero()[:, 0]
    run = torch.cumsum(~close[at], 0) - 1
    size = torch.bincount(run)
    hits = torch.bincount(run[is_hit[at]], minlength=len(size))
    mixed = ((hits > 0) & (hits < size))[run]
    unsure, run = at[mixed], run[mixed]
    distance = distances_of_pairs(request.queries, request.gallery, block[row[unsure]], item[unsure])
    is_hit[unsure] = is_hit[unsure][exact_order(is_hit[unsure], run, distance)]
    return is_hit
