"""Exact ranking: float64 distances, the rule for ties, and ranks from a full sort of the gallery.

**Ties never raise a score.** An irrelevant item is ranked before a relevant one if its distance is larger by
at most ``TIE_TOLERANCE``. That is 1e-12, on a scale where unit vectors (cosine) or the gallery's radius
(Euclidean) measure 1. So embeddings that have collapsed onto one point score 0. The order of rows, the size
of blocks and float32 rounding do not change a score. Two functions apply the rule: :func:`exact_order`, for
the candidates that :mod:`levelfield.metrics._filtered_search` keeps, and :func:`hits_by_sorting`, for a whole
gallery.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.metrics._relevance import Relevance, RelevantHits, hidden_cells
from levelfield.metrics._vectors import NormalizedVectors, row_blocks, row_norms

TIE_TOLERANCE = 1e-12
NEARBY = 1e-5  # squared distances below this lose digits in a matrix product; they are computed directly
CLOSE = 0.1  # squared radius below which rows are centered first, so that a product loses fewer digits
COLLAPSED = (TIE_TOLERANCE / 10) ** 2  # squared radius of rows that are all tied
REMOTE = 1e4  # so are those of queries farther than this (squared) from the gallery's center


@dataclass(frozen=True)
class Candidates:
    """P pairs of a query and a gallery item that may change a metric.

    Attributes:
        row: int64 (P,), the query's number in the block.
        query: int64 (P,), the query's row among all queries.
        item: int64 (P,), the item's row in the gallery.
        is_hit: bool (P,), whether the item is relevant to the query.
        similarity: float32 (P,), approximate.
    """

    row: Tensor
    query: Tensor
    item: Tensor
    is_hit: Tensor
    similarity: Tensor

    def select(self, at: Tensor) -> Candidates:
        """Return the candidates with these numbers, in this order."""
        return Candidates(self.row[at], self.query[at], self.item[at], self.is_hit[at], self.similarity[at])


def exact_order(candidates: Candidates, group: Tensor, distance: Tensor) -> Tensor:
    """Return the order (P,) by group (P,), then distance (P,); in a tie, irrelevant items come first."""
    order = torch.argsort(candidates.is_hit.int(), stable=True)
    order = order[torch.argsort((distance + TIE_TOLERANCE * candidates.is_hit)[order], stable=True)]
    return order[torch.argsort(group[order], stable=True)]


def hits_in_order(candidates: Candidates, relevant: Tensor, *, gallery: int) -> RelevantHits:
    """Return the hits of ordered candidates of a block of queries with ``relevant`` (B,) items each."""
    count = torch.bincount(candidates.row, minlength=len(relevant))
    before = torch.cumsum(count, 0) - count
    rank = torch.arange(1, len(candidates.row) + 1, device=candidates.row.device) - before[candidates.row]
    seen = torch.cumsum(candidates.is_hit, 0)
    seen_before = torch.cat([seen.new_zeros(1), seen])[before]
    nth = seen - seen_before[candidates.row]
    hit = candidates.is_hit
    return RelevantHits(
        row=candidates.row[hit], rank=rank[hit], nth=nth[hit], relevant=relevant, gallery=gallery
    )


def hits_by_sorting(
    queries: NormalizedVectors, gallery: NormalizedVectors, relevance: Relevance, rows: Tensor, *, memory: int
) -> Iterator[tuple[Tensor, RelevantHits]]:
    """Yield the hits of all relevant items of ``rows`` from float64 distances to the whole gallery, sorted.

    Used where the filter cannot discard enough: metrics of the whole ranking, small galleries, few large
    classes, and embeddings that have collapsed onto a few points.
    """
    height = max(1, memory // (len(gallery) * 40))
    for block in row_blocks(rows, height):
        distances = distances_to_all(queries, gallery, block, memory=memory)
        columns, real = relevance.columns(block)
        wanted = distances.gather(1, columns).where(real, torch.inf).sort(dim=1).values
        relevance.mask_relevant(block, distances, torch.inf)
        distances[hidden_cells(relevance, block)] = torch.inf
        others = _sorted(distances)
        before = torch.searchsorted(others, wanted + TIE_TOLERANCE, right=True)
        nth = torch.arange(1, wanted.shape[1] + 1, device=rows.device).expand_as(wanted)
        exists = wanted.isfinite()
        yield (
            block,
            RelevantHits(
                row=exists.nonzero()[:, 0],
                rank=(before + nth)[exists],
                nth=nth[exists],
                relevant=relevance.relevant[block],
                gallery=len(gallery) - int(relevance.exclude_self),
            ),
        )


def distances_of_pairs(
    queries: NormalizedVectors, gallery: NormalizedVectors, query: Tensor, item: Tensor
) -> Tensor:
    """Return the distances, float64 (P,), of P pairs of a query row (P,) and a gallery row (P,)."""
    piece = max(1, (1 << 22) // gallery.source.shape[1])
    pieces = [
        row_norms(queries.exact(query[a : a + piece]) - gallery.exact(item[a : a + piece]))[:, 0]
        for a in range(0, len(query), piece)
    ]
    return torch.cat(pieces) if pieces else torch.zeros(0, dtype=torch.float64, device=query.device)


def distances_to_all(
    queries: NormalizedVectors, gallery: NormalizedVectors, block: Tensor, *, memory: int
) -> Tensor:
    """Return the distances, float64 (B, M), of query rows ``block`` to the whole gallery."""
    asked = queries.exact(block)
    remote = float(asked.square().sum(1).max()) > REMOTE
    out = asked.new_empty(len(block), len(gallery))
    piece = max(1, memory // (16 * asked.shape[1]))
    for start in range(0, len(gallery), piece):
        items = gallery.exact(slice(start, start + piece))
        squared, nearby = _squared_distances(asked, items)
        if remote or int(nearby.sum()) > squared.numel() // 20:
            distances = torch.cdist(asked, items, compute_mode="donot_use_mm_for_euclid_dist")
        else:
            row, item = nearby.nonzero(as_tuple=True)
            distances = squared.sqrt_()
            distances[nearby] = distances_of_pairs(queries, gallery, block[row], item + start)
        out[:, start : start + piece] = distances
    return out


def _squared_distances(asked: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Return squared distances (B, M) from a matrix product, and which of them lost too many digits.

    The digits that a product loses grow with the length of the rows. Embeddings that have almost collapsed
    onto a point are centered first: their distances do not change, and the rows get short.
    """
    center = items.mean(0)
    centered, others = asked - center, items - center
    radius = max(float(rows.square().sum(1).max()) for rows in (centered, others))
    if radius < COLLAPSED:
        same = asked.new_zeros(len(asked), len(items))
        return same, same.bool()
    if radius < CLOSE:
        asked, items = centered, others
    else:
        radius = 1.0
    squared = asked.square().sum(1, keepdim=True) - 2 * (asked @ items.T) + items.square().sum(1)
    return squared, squared < NEARBY * radius


def _sorted(values: Tensor) -> Tensor:
    """Return rows (B, M) sorted, smallest first; on the CPU in place by NumPy, which needs no index."""
    if values.is_cuda:
        return values.sort(dim=1).values
    values.numpy().sort(axis=1)
    return values
