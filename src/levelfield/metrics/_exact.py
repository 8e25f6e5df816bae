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

import torch
from torch import Tensor

from levelfield.metrics._relevance import Relevance, RelevantHits, hidden_cells
from levelfield.metrics._vectors import NormalizedVectors, row_blocks, row_norms

TIE_TOLERANCE = 1e-12
NEARBY = 1e-5  # squared distances below this lose digits in a matrix product; they are computed directly
CLOSE = 0.1  # squared radius below which rows are centered first, so that a product loses fewer digits
COLLAPSED = (TIE_TOLERANCE / 10) ** 2  # squared radius of rows that are all tied
PAIR_NUMBERS = 1 << 16  # numbers of a piece of pairs; it stays in the processor's cache
REMOTE = 1e4  # so are those of queries farther than this (squared) from the gallery's center


def exact_order(is_hit: Tensor, group: Tensor, distance: Tensor) -> Tensor:
    """Return the order (P,) by group (P,), then distance (P,); in a tie, irrelevant items come first."""
    order = torch.argsort(is_hit.int(), stable=True)
    order = order[torch.argsort((distance + TIE_TOLERANCE * is_hit)[order], stable=True)]
    return order[torch.argsort(group[order], stable=True)]


def hits_in_order(row: Tensor, is_hit: Tensor, relevant: Tensor, *, gallery: int) -> RelevantHits:
    """Return the hits of a block of queries with ``relevant`` (B,) items each.

    Args:
        row: int64 (P,), the number in the block of each candidate's query; rising.
        is_hit: bool (P,), whether the candidate is relevant; those of one query nearest first.
        relevant: int64 (B,), number of relevant items of each query.
        gallery: Number of items that a query is ranked against.
    """
    at = is_hit.nonzero()[:, 0]
    hit = row[at]
    found, listed = (torch.bincount(rows, minlength=len(relevant)) for rows in (hit, row))
    nth = torch.arange(1, len(hit) + 1, device=row.device) - (torch.cumsum(found, 0) - found)[hit]
    rank = at + 1 - (torch.cumsum(listed, 0) - listed)[hit]
    return RelevantHits(row=hit, rank=rank, nth=nth, relevant=relevant, gallery=gallery)


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
    piece = max(1, PAIR_NUMBERS // gallery.source.shape[1])
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
        if remote or int(torch.count_nonzero(nearby)) > squared.numel() // 20:
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
