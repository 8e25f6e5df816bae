"""Approximate search with faiss: choice of the index type, construction and recall.

The candidates that faiss returns are ranked again with the exact vectors, which are memory-mapped.
Compression can lose candidates but does not change the order of the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from levelfield.core.errors import RunError, UsageError
from levelfield.core.files import atomic_write, wrap_disk_errors
from levelfield.core.seeds import numpy_generator
from levelfield.retrieval.index._exact import search_exactly
from levelfield.retrieval.index._vectors import REMEDY, Floats, Rows, Vectors

IndexKind = Literal["exact", "hnsw", "ivfpq"]
EXACT_UP_TO = 200_000  # rows; at D = 128 a query then takes about as long as a forward pass
LINKS = 32  # per node of the HNSW graph
TRAINING_ROWS_PER_LIST = 64
PIECE = 1 << 15
SAMPLE = 500  # queries for the measurement of recall
UNTRAINED = 16  # every 16th row is kept out of the training of lists, for an unbiased recall
RECALL_AT = 10
EFFORTS: dict[IndexKind, tuple[int, ...]] = {
    "hnsw": (16, 32, 64, 128, 256, 512),
    "ivfpq": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
}
REFINES: dict[IndexKind, tuple[int, ...]] = {"hnsw": (2,), "ivfpq": (4, 16, 64)}
GRAPH_TRAINING_ROWS = 1 << 16  # enough to find the range for 8-bit quantization


class ApproximateCard(BaseModel):
    """Description of the approximate part of an index, stored in ``index.json``.

    Attributes:
        kind: "hnsw" (graph over 8-bit vectors) or "ivfpq" (lists of compressed vectors).
        recipe: faiss factory string.
        rows: Number of rows covered; later rows are searched exactly.
        effort: Search effort: efSearch of a graph, nprobe of lists.
        refine: Candidates that are ranked exactly per requested result.
        recall: Recall at 10 against exact search, on a sample of the index's own vectors.
        sample: Number of queries in the sample.
        target: Recall that the effort was tuned for.
        bytes: File size.
        removed: Number of removed rows at the time of the measurement.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: IndexKind
    recipe: Annotated[str, Field(max_length=300)]
    rows: Annotated[int, Field(ge=0, le=2**40)]
    effort: Annotated[int, Field(ge=1, le=2**20)]
    refine: Annotated[int, Field(ge=1, le=2**20)]
    recall: Annotated[float, Field(ge=0, le=1)]
    sample: Annotated[int, Field(ge=0, le=2**40)]
    target: Annotated[float, Field(ge=0, le=1)]
    bytes: Annotated[int, Field(ge=0, le=2**60)]
    removed: Annotated[int, Field(ge=0, le=2**40)] = 0


@dataclass(frozen=True)
class IndexType:
    """Type of index for a number of rows, with its memory use in bytes."""

    kind: IndexKind
    recipe: str
    bytes: int


def choose_index_type(rows: int, size: int, *, memory: int, exact_up_to: int = EXACT_UP_TO) -> IndexType:
    """Return the index type for ``rows`` vectors of size ``size`` within ``memory`` bytes.

    Up to ``exact_up_to`` rows the search is exact. Above that it uses a graph (HNSW) if the graph fits into
    memory, since a graph has the best recall for its speed. Otherwise it uses compressed lists (IVF-PQ) of a
    few bytes per row. The exact vectors stay on disk and are read on demand.

    Example:
        >>> choose_index_type(1_000_000, 128, memory=8 << 30).kind
        'hnsw'
        >>> choose_index_type(1_000_000, 128, memory=100 << 20).kind
        'ivfpq'
    """
    if rows <= exact_up_to:
        return IndexType("exact", "Flat", 0)
    graph = rows * (size + LINKS * 2 * 4 + 16)
    if graph <= memory:
        return IndexType("hnsw", f"HNSW{LINKS},SQ8", graph)
    lists = 1 << max(4, round(np.log2(4 * rows**0.5)))
    options = [
        (4, size / 2),
        (8, size / 4),
        (8, size / 8),
        (8, size / 16),
    ]  # bits per code, codes per vector
    for bits, codes in options:
        whole = max(1, int(codes))
        taken = int(rows * (whole * bits / 8 + 8) + lists * size * 4)
        if size % whole == 0 and taken <= memory:
            recipe = f"IVF{lists},PQ{whole}x4fs" if bits == 4 else f"IVF{lists},PQ{whole}"
            return IndexType("ivfpq", recipe, taken)
    raise UsageError(
        f"{rows:,} vectors of size {size} need {taken / 1e9:.1f} GB even compressed, --memory allows "
        f"{memory / 1e9:.1f} GB; allow more, or reduce the embedding size by whitening"
    )


class ApproximateIndex:
    """faiss index with its search effort."""

    def __init__(self, index: Any, kind: IndexKind, *, effort: int, refine: int) -> None:
        self._index = index
        self.kind = kind
        self.effort = effort
        self.refine = refine

    @property
    def rows(self) -> int:
        """Number of rows covered."""
        return int(self._index.ntotal)

    def search(self, vectors: Vectors, queries: Floats, count: int, *, removed: Rows) -> tuple[Rows, Floats]:
        """Search the covered rows; arguments and result as in :func:`search_exactly`, but approximate."""
        faiss = require_faiss()
        wanted = min(max(count, RECALL_AT) * self.refine, self.rows)
        selector = faiss.IDSelectorNot(faiss.IDSelectorBatch(removed)) if len(removed) else None
        if self.kind == "hnsw":
            options = faiss.SearchParametersHNSW(efSearch=max(self.effort, wanted), sel=selector)
        else:
            options = faiss.SearchParametersIVF(nprobe=self.effort, sel=selector)
        # faiss.contrib.torch_utils, imported by other packages, replaces search by one without params.
        search = getattr(self._index, "search_numpy", self._index.search)
        _, candidates = search(queries, wanted, params=options)
        return _rank_candidates(vectors, queries, candidates, count)

    def add(self, vectors: Vectors) -> None:
        """Add the rows that are not covered yet."""
        for _, shard in vectors.shards(self.rows):
            for start in range(0, len(shard), PIECE):
                self._index.add(np.ascontiguousarray(shard[start : start + PIECE]))

    def write(self, file: Path) -> int:
        """Write the index atomically and return its size in bytes."""
        faiss = require_faiss()
        with wrap_disk_errors(file, remedy=REMEDY), atomic_write(file) as temporary:
            try:
                faiss.write_index(self._index, str(temporary))
            except RuntimeError as error:
                raise OSError(0, str(error).splitlines()[-1]) from error
        return file.stat().st_size


def build_index(
    vectors: Vectors,
    index_type: IndexType,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ApproximateIndex:
    """Build an index of this type from all vectors."""
    faiss = require_faiss()
    index = faiss.index_factory(vectors.size, index_type.recipe, faiss.METRIC_INNER_PRODUCT)
    if index_type.kind == "ivfpq":
        faiss.extract_index_ivf(index).cp.seed = 1  # k-means: the same vectors give the same index
    if not index.is_trained:
        index.train(vectors.take(_training_rows(vectors, index_type)))
    kind = index_type.kind
    made = ApproximateIndex(index, kind, effort=EFFORTS[kind][0], refine=REFINES[kind][0])
    for start, shard in vectors.shards():
        for at in range(0, len(shard), PIECE):
            index.add(np.ascontiguousarray(shard[at : at + PIECE]))
            progress(start + min(at + PIECE, len(shard)), vectors.count)
    return made


def tune_effort(
    index: ApproximateIndex, vectors: Vectors, *, target: float, removed: Rows
) -> tuple[float, int]:
    """Set the smallest effort that reaches the recall ``target``; return the recall and the sample size.

    The queries are rows of the index on which the lists were not trained. Each query is excluded from its own
    results. The recall is lower for queries unlike the images of the index.
    """
    if not 0 < target <= 1:
        raise UsageError(f"the target recall is {target}; it must lie between 0 and 1")
    alive = np.setdiff1d(np.arange(index.rows), removed)
    generator = numpy_generator("index", "recall")
    fair = alive[alive % UNTRAINED == 0]
    fair = fair if len(fair) >= SAMPLE // 5 else alive
    sample = np.sort(generator.choice(fair, size=min(SAMPLE, len(fair)), replace=False))
    queries = vectors.take(sample)
    requested = RECALL_AT + 1
    wanted = _without(search_exactly(vectors, queries, requested, removed=removed)[0], sample)
    recall = 0.0
    for refine in REFINES[index.kind]:
        before = -1.0
        for effort in EFFORTS[index.kind]:
            index.refine, index.effort = refine, effort
            found, _ = index.search(vectors, queries, requested, removed=removed)
            recall = _overlap(wanted, _without(found, sample))
            if recall >= target:
                return recall, len(sample)
            if recall - before < 0.002:  # more effort no longer helps; more candidates may
                break
            before = recall
    return recall, len(sample)


def read_index(file: Path, card: ApproximateCard, *, mapped: bool = True) -> ApproximateIndex:
    """Return the index in ``file``.

    Args:
        file: File written by :meth:`ApproximateIndex.write`.
        card: Its description.
        mapped: If true, map the file into memory, read-only. If false, read it so that rows can be added.
    """
    faiss = require_faiss()
    try:
        # Older faiss versions cannot map a graph and read it instead.
        index = faiss.read_index(str(file), getattr(faiss, "IO_FLAG_MMAP_IFC", 0) if mapped else 0)
    except RuntimeError as error:
        raise RunError(
            f"{file} cannot be read ({str(error).splitlines()[-1]}); delete it and index again"
        ) from error
    if index.ntotal != card.rows:
        raise RunError(f"{file} belongs to another index; run the same index command again to build it")
    return ApproximateIndex(index, card.kind, effort=card.effort, refine=card.refine)


def require_faiss() -> Any:
    """Return the faiss module, or raise with the command that installs it."""
    try:
        import faiss
    except ImportError as error:
        raise UsageError(
            f"an index of more than {EXACT_UP_TO:,} images needs faiss; run pip install 'levelfield[ann]'"
        ) from error
    return faiss


def _rank_candidates(vectors: Vectors, queries: Floats, candidates: Rows, count: int) -> tuple[Rows, Floats]:
    """Return the ``count`` best candidates (Q x n, -1 for none) by exact similarity."""
    values = _similarities(vectors, queries, candidates)
    found = torch.from_numpy(values).topk(min(count, values.shape[1]), dim=1)
    rows, best = np.take_along_axis(candidates, found.indices.numpy(), 1), found.values.numpy()
    missing = count - rows.shape[1]
    if missing > 0:
        rows = np.pad(rows, ((0, 0), (0, missing)), constant_values=-1)
        best = np.pad(best, ((0, 0), (0, missing)), constant_values=-np.inf)
    return rows, best


def _similarities(vectors: Vectors, queries: Floats, candidates: Rows) -> Floats:
    """Return the similarity of each query to its own candidates (Q x n), -inf where there is none.

    Uses a faiss routine that reads the rows in place; copying them would take longer than the comparison.
    """
    faiss = require_faiss()
    pointer, given = faiss.swig_ptr, np.ascontiguousarray(queries, dtype=np.float32)
    found: list[Floats] = []
    for first, shard in vectors.shards():
        here = np.ascontiguousarray(candidates)
        if len(shard) < vectors.count:  # -1 marks candidates of other files
            here = np.where((here >= first) & (here < first + len(shard)), here - first, -1)
        values = np.empty(here.shape, dtype=np.float32)
        faiss.fvec_inner_products_by_idx(
            pointer(values), pointer(given), pointer(shard), pointer(here), vectors.size, *here.shape
        )
        found.append(values)
    return found[0] if len(found) == 1 else np.maximum.reduce(found)


def _training_rows(vectors: Vectors, index_type: IndexType) -> Rows:
    wanted = GRAPH_TRAINING_ROWS
    if index_type.kind == "ivfpq":
        lists = int(index_type.recipe.split(",", maxsplit=1)[0].removeprefix("IVF"))
        wanted = TRAINING_ROWS_PER_LIST * lists
    rows = np.arange(vectors.count)
    rows = rows[rows % UNTRAINED != 0]
    generator = numpy_generator("index", "training rows")
    return np.sort(generator.choice(rows, size=min(len(rows), wanted), replace=False))


def _without(rows: Rows, own: Rows) -> list[set[int]]:
    return [
        set([row for row in found if row not in {mine, -1}][:RECALL_AT])
        for found, mine in zip(rows.tolist(), own.tolist(), strict=True)
    ]


def _overlap(wanted: list[set[int]], found: list[set[int]]) -> float:
    shares = [len(w & f) / len(w) for w, f in zip(wanted, found, strict=True) if w]
    return float(np.mean(shares)) if shares else 1.0
