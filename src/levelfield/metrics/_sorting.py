"""Ranks by measuring and sorting everything in float64, where the fast search cannot discard enough.

That is so for measures of the whole ranking, for small galleries, for few large classes, and for embeddings
that have collapsed onto a few points.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from levelfield.metrics._hits import Hits
from levelfield.metrics._labels import Relevance
from levelfield.metrics._vectors import Vectors, length, steps

TIE = 1e-12  # distances closer than this are a tie, where unit vectors (or the gallery's radius) measure 1
NEARBY = 1e-5  # squared distances below this lose digits in a matrix product and are measured directly,
REMOTE = 1e4  # as are those from queries further away than this (squared) from the gallery's centre


def measured(queries: Vectors, gallery: Vectors, query: Tensor, item: Tensor) -> Tensor:
    """Distances, float64 (P,), of P pairs of a query row (P,) and a gallery row (P,)."""
    piece = max(1, (1 << 22) // gallery.source.shape[1])
    away = [
        length(queries.exact(query[a : a + piece]) - gallery.exact(item[a : a + piece]))[:, 0]
        for a in range(0, len(query), piece)
    ]
    return torch.cat(away) if away else torch.zeros(0, dtype=torch.float64, device=query.device)


def distances(queries: Vectors, gallery: Vectors, block: Tensor, *, memory: int) -> Tensor:
    """Distances, float64 (B, M), of query rows ``block`` to the whole gallery."""
    asked = queries.exact(block)
    squares = asked.square().sum(1, keepdim=True)
    remote = float(squares.max()) > REMOTE
    out = asked.new_empty(len(block), len(gallery))
    piece = max(1, memory // (16 * asked.shape[1]))
    for start in range(0, len(gallery), piece):
        items = gallery.exact(slice(start, start + piece))
        squared = squares - 2 * (asked @ items.T) + items.square().sum(1)
        nearby = squared < NEARBY
        if remote or int(nearby.sum()) > squared.numel() // 20:
            away = torch.cdist(asked, items, compute_mode="donot_use_mm_for_euclid_dist")
        else:
            row, item = nearby.nonzero(as_tuple=True)
            away = squared.sqrt_()
            away[nearby] = measured(queries, gallery, block[row], item + start)
        out[:, start : start + piece] = away
    return out


def hits_by_sorting(
    queries: Vectors, gallery: Vectors, relevance: Relevance, rows: Tensor, *, memory: int
) -> Iterator[tuple[Tensor, Hits]]:
    """The hits of all relevant items of ``rows``, in blocks small enough for float64."""
    height = max(1, memory // (len(gallery) * 40))
    for block in steps(rows, height):
        away = distances(queries, gallery, block, memory=memory)
        columns, real = relevance.columns(block)
        wanted = away.gather(1, columns).where(real, torch.inf).sort(dim=1).values
        own = relevance.items[None, :] == relevance.queries[block][:, None]
        others = _sorted(away.masked_fill_(own, torch.inf))
        before = torch.searchsorted(others, wanted + TIE, right=True)
        nth = torch.arange(1, wanted.shape[1] + 1, device=rows.device).expand_as(wanted)
        found = wanted.isfinite()
        yield (
            block,
            Hits(
                row=found.nonzero()[:, 0],
                rank=(before + nth)[found],
                nth=nth[found],
                relevant=relevance.relevant[block],
                gallery=len(gallery) - int(relevance.itself),
            ),
        )


def _sorted(values: Tensor) -> Tensor:
    """Rows (B, M) sorted, smallest first, in place where that is faster (NumPy sorts without an index)."""
    if values.is_cuda:
        return values.sort(dim=1).values
    values.numpy().sort(axis=1)
    return values
