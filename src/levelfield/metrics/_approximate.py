"""Search with an approximate index (faiss), for galleries too large for exact search.

The items that the index finds are ranked exactly; items that it misses are lost. So its recall against exact
search is measured on a sample of the queries and always reported with the scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.seeds import torch_generator
from levelfield.metrics._exact import distances_of_pairs, exact_order, hits_in_order
from levelfield.metrics._filtered_search import SearchRequest
from levelfield.metrics._relevance import RelevantHits, hidden_cells
from levelfield.metrics._vectors import PIECE, row_blocks

TRAINING_ROWS = 200_000
SAMPLE = 500


class ApproximateSearch:
    """Faiss index of the gallery of a request, e.g. "IVF1024,Flat;nprobe=16" or "HNSW32"."""

    def __init__(self, request: SearchRequest, spec: str, *, seed: int) -> None:
        self.request = request
        self.depth = max(int(deep.max()) for deep, _ in request.depths(torch.arange(len(request.queries))))
        whole = [m.name for m in request.metrics if m.card.depth == "all"]
        if whole:
            raise UsageError(
                f'{whole[0]} needs the whole ranking, not an approximate index; use index="exact"'
            )
        self.spec = spec
        self.seed = seed
        self._index = _build(request, spec, seed)

    def hits(self, rows: Tensor) -> Iterator[tuple[Tensor, RelevantHits]]:
        """Yield blocks of queries ``rows`` with the hits among the items that the index finds."""
        relevance = self.request.relevance
        for block in row_blocks(rows, max(1, min(1024, (1 << 20) // self.depth))):
            items = self._neighbors(block)
            row, column = (items >= 0).nonzero(as_tuple=True)
            query, item = block[row], items[row, column]
            is_hit = relevance.is_hit(query, item)
            distance = distances_of_pairs(self.request.queries, self.request.gallery, query, item)
            is_hit = is_hit[exact_order(is_hit, row, distance)]
            relevant = relevance.relevant[block]
            yield block, hits_in_order(row, is_hit, relevant, gallery=self.request.ranked_items)

    def recall(self, rows: Tensor) -> float:
        """Return the share of the true nearest items, up to the metrics' depth, that the index finds."""
        sample = torch.randperm(len(rows), generator=torch_generator("metrics", "index", self.seed))[:SAMPLE]
        shares = []
        for block in row_blocks(rows[sample], max(1, self.request.memory // (8 * len(self.request.gallery)))):
            similarities = _all_similarities(self.request, block)
            true = similarities.topk(self.depth, dim=1).indices
            listed = self._neighbors(block)
            shares += [
                len(np.intersect1d(a, b)) / self.depth
                for a, b in zip(true.numpy(), listed.numpy(), strict=True)
            ]
        return float(np.mean(shares))

    def _neighbors(self, block: Tensor) -> Tensor:
        """Return the gallery rows (B, depth) that the index finds, without hidden ones; padded with -1."""
        row, _ = hidden_cells(self.request.relevance, block)
        most = int(torch.bincount(row, minlength=1).max())
        rows = self.request.queries.exact(block).float().numpy()
        items = torch.from_numpy(
            self._index.search(rows, min(self.depth + most, len(self.request.gallery)))[1]
        )
        if most:
            relevance, owner = self.request.relevance, block[:, None].expand_as(items)
            if relevance.exclude_self:
                items[items == owner] = -1
            if relevance.ignored is not None:
                items[(items >= 0) & relevance.ignored.contains(owner, items.clamp(min=0))] = -1
            last = torch.argsort((items < 0).int(), dim=1, stable=True)
            items = items.gather(1, last)[:, : self.depth]
        return items


def _build(request: SearchRequest, spec: str, seed: int) -> Any:
    try:
        import faiss
    except ImportError as error:
        raise UsageError("an approximate index needs faiss; pip install 'levelfield[ann]'") from error
    if request.gallery.source.is_cuda:
        raise UsageError("the approximate index works on the CPU; move the embeddings there")
    recipe, _, settings = spec.partition(";")
    gallery = request.gallery
    try:
        index = faiss.index_factory(gallery.source.shape[1], recipe, faiss.METRIC_L2)
        some = torch.randperm(len(gallery), generator=torch_generator("metrics", "index rows", seed))
        index.train(gallery.exact(some[:TRAINING_ROWS].sort().values).float().numpy())
        for start in range(0, len(gallery), PIECE):
            index.add(gallery.exact(slice(start, start + PIECE)).float().numpy())
        if settings:
            settable: Any = faiss.ParameterSpace()
            settable.set_index_parameters(index, settings)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise UsageError(
            f'faiss cannot build the index "{spec}": {reason}; try "IVF256,Flat;nprobe=16"'
        ) from error
    return index


def _all_similarities(request: SearchRequest, block: Tensor) -> Tensor:
    """Return similarities to the whole gallery, float32 (B, M); -inf for hidden items."""
    queries = request.queries.queries(block)
    starts = range(0, len(request.gallery), PIECE)
    similarities = torch.cat([queries @ request.gallery.items(a, a + PIECE).T for a in starts], 1)
    similarities[hidden_cells(request.relevance, block)] = -torch.inf
    return similarities
