"""Search with an approximate index (faiss), for galleries that exact search cannot do in time.

What the index finds is measured and ordered exactly; what it misses is missed. So its recall against exact
search is measured on a sample of the queries and always reported with the scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.metrics._exact import Candidates, distances_of_pairs, exact_order, hits_in_order
from levelfield.metrics._relevance import Hits
from levelfield.metrics._sieve import Task
from levelfield.metrics._vectors import PIECE, row_blocks
from levelfield.seeds import torch_generator

TRAINING_ROWS = 200_000
SAMPLE = 500


class ApproximateSearch:
    """A faiss index over the gallery of a task, e.g. "IVF1024,Flat;nprobe=16" or "HNSW32"."""

    def __init__(self, task: Task, spec: str, *, seed: int) -> None:
        self.task = task
        self.depth = max(int(deep.max()) for deep, _ in task.depths(task.relevance.relevant.clamp(min=1)))
        whole = [m.name for m in task.measures if m.card.depth == "all"]
        if whole:
            raise UsageError(f"{whole[0]} needs the whole ranking, which an approximate index does not give")
        self.spec = spec
        self.seed = seed
        self._index = _build(task, spec, seed)

    def hits(self, rows: Tensor) -> Iterator[tuple[Tensor, Hits]]:
        """As :func:`levelfield.metrics._sieve.search`, of the items that the index finds."""
        relevance = self.task.relevance
        for block in row_blocks(rows, max(1, min(1024, (1 << 20) // self.depth))):
            items = self._neighbours(block)
            row, column = (items >= 0).nonzero(as_tuple=True)
            query, item = block[row], items[row, column]
            candidates = Candidates(
                row=row,
                query=query,
                item=item,
                is_hit=relevance.items[item] == relevance.queries[query],
                similarity=torch.zeros_like(item, dtype=torch.float32),
            )
            distance = distances_of_pairs(self.task.queries, self.task.gallery, query, item)
            candidates = candidates.select(exact_order(candidates, row, distance))
            yield block, hits_in_order(candidates, relevance.relevant[block], gallery=self.task.ranked_items)

    def recall(self, rows: Tensor) -> float:
        """The share of the true nearest items, as many as the measures look at, that the index finds."""
        sample = torch.randperm(len(rows), generator=torch_generator("metrics", "index", self.seed))[:SAMPLE]
        shares = []
        for block in row_blocks(rows[sample], max(1, self.task.memory // (8 * len(self.task.gallery)))):
            similarities = _all_similarities(self.task, block)
            true = similarities.topk(self.depth, dim=1).indices
            listed = self._neighbours(block)
            shares += [
                len(np.intersect1d(a, b)) / self.depth
                for a, b in zip(true.numpy(), listed.numpy(), strict=True)
            ]
        return float(np.mean(shares))

    def _neighbours(self, block: Tensor) -> Tensor:
        """Gallery rows (B, depth) that the index finds, never the query itself; -1 where there are fewer."""
        own = int(self.task.relevance.itself)
        rows = self.task.queries.exact(block).float().numpy()
        items = torch.from_numpy(self._index.search(rows, self.depth + own)[1])
        if own:
            items[items == block[:, None]] = -1
            last = torch.argsort((items < 0).int(), dim=1, stable=True)
            items = items.gather(1, last)[:, : self.depth]
        return items


def _build(task: Task, spec: str, seed: int) -> Any:
    try:
        import faiss
    except ImportError as error:
        raise UsageError("an approximate index needs faiss; pip install 'levelfield[ann]'") from error
    if task.gallery.source.is_cuda:
        raise UsageError("the approximate index works on the CPU; move the embeddings there")
    recipe, _, settings = spec.partition(";")
    gallery = task.gallery
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
            f'faiss refuses the index "{spec}": {reason}; try "IVF256,Flat;nprobe=16"'
        ) from error
    return index


def _all_similarities(task: Task, block: Tensor) -> Tensor:
    """float32 (B, M), the query itself at -inf."""
    queries = task.queries.queries(block)
    starts = range(0, len(task.gallery), PIECE)
    similarities = torch.cat([queries @ task.gallery.items(a, a + PIECE).T for a in starts], 1)
    if task.relevance.itself:
        similarities[torch.arange(len(block)), block] = -torch.inf
    return similarities
