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
import numpy.typing as npt
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
SAMPLE = 500  # queries that tune the effort, and as many others that measure the recall
HELD_OUT = 16  # at most one row of 16 is held out for them
FEW = 50  # fewer new rows than this do not measure a recall
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
        recall: Recall at 10 against exact search, on queries that the effort was not tuned on.
        low: Lower end of its 95% interval.
        high: Upper end of its 95% interval.
        fresh: If true, the queries were images that the index did not hold yet, like those that will come. If
            false, they were rows of the index, each excluded from its own results; a graph finds their
            neighbors more easily.
        sample: Number of queries.
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
    low: Annotated[float, Field(ge=0, le=1)] = 0.0
    high: Annotated[float, Field(ge=0, le=1)] = 1.0
    fresh: bool = False
    sample: Annotated[int, Field(ge=0, le=2**40)]
    target: Annotated[float, Field(ge=0, le=1)]
    bytes: Annotated[int, Field(ge=0, le=2**60)]
    removed: Annotated[int, Field(ge=0, le=2**40)] = 0


@dataclass(frozen=True)
class Recall:
    """Recall at 10 with its 95% interval; see :class:`ApproximateCard`."""

    value: float
    low: float
    high: float
    sample: int
    fresh: bool


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
    graph = rows * (size + LINKS * 2 * 4 + 24)
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
        taken = int(rows * (whole * bits / 8 + 16) + lists * size * 4)
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

    def add(self, vectors: Vectors, rows: Rows) -> None:
        """Add these rows; with those in the index they must be all from 0 on before it is written."""
        numbered = isinstance(self._index, require_faiss().IndexIDMap)  # older indexes are not
        for start in range(0, len(rows), PIECE):
            part = rows[start : start + PIECE]
            if numbered:
                self._index.add_with_ids(vectors.take(part), part)
            else:
                self._index.add(vectors.take(part))

    def write(self, file: Path) -> int:
        """Write the index atomically and return its size in bytes."""
        faiss = require_faiss()
        with wrap_disk_errors(file, remedy=REMEDY), atomic_write(file) as temporary:
            try:
                faiss.write_index(self._index, str(temporary))
            except RuntimeError as error:
                raise OSError(0, str(error).splitlines()[-1]) from error
        return file.stat().st_size


def held_out_rows(vectors: Vectors) -> Rows:
    """Return the rows that a new index gets last, after they were the queries that measure its recall."""
    count = min(2 * SAMPLE, vectors.count // HELD_OUT)
    generator = numpy_generator("index", "held out")
    return np.sort(generator.choice(vectors.count, size=count, replace=False)).astype(np.int64)


def build_index(
    vectors: Vectors,
    index_type: IndexType,
    *,
    without: Rows,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ApproximateIndex:
    """Build an index of this type from all vectors but the rows ``without``, which are added later."""
    faiss = require_faiss()
    index = faiss.index_factory(vectors.size, f"IDMap,{index_type.recipe}", faiss.METRIC_INNER_PRODUCT)
    if index_type.kind == "ivfpq":
        faiss.extract_index_ivf(index).cp.seed = 1  # k-means: the same vectors give the same index
    rows = np.setdiff1d(np.arange(vectors.count), without, assume_unique=True)
    if not index.is_trained:
        index.train(vectors.take(_training_rows(rows, index_type)))
    kind = index_type.kind
    made = ApproximateIndex(index, kind, effort=EFFORTS[kind][0], refine=REFINES[kind][0])
    for start in range(0, len(rows), PIECE):
        made.add(vectors, rows[start : start + PIECE])
        progress(min(start + PIECE, len(rows)), vectors.count)
    return made


def tune_effort(
    index: ApproximateIndex, vectors: Vectors, *, new: Rows, target: float, removed: Rows
) -> Recall:
    """Set the smallest effort that reaches the recall ``target``; return the recall on other queries.

    The queries are the rows ``new`` that the index does not hold yet. If they are few, they are rows of the
    index, each excluded from its own results. Half of them tune the effort, the others measure the recall,
    since the best of several efforts looks better on the queries that chose it.
    """
    if not 0 < target <= 1:
        raise UsageError(f"the target recall is {target}; it must lie between 0 and 1")
    new = np.setdiff1d(new, removed)
    fresh = len(new) >= FEW
    candidates = new if fresh else np.setdiff1d(np.arange(index.rows), removed)
    size = min(2 * SAMPLE, len(candidates))
    sample = np.sort(numpy_generator("index", "recall").choice(candidates, size=size, replace=False))
    queries = vectors.take(sample)
    hidden = np.union1d(removed, np.setdiff1d(new, removed)) if fresh else removed
    requested = RECALL_AT + 1 - int(fresh)
    own = np.full(size, -2) if fresh else sample
    wanted = _without(search_exactly(vectors, queries, requested, removed=hidden)[0], own)
    tuning, measuring = np.arange(size) % 2 == 0, np.arange(size) % 2 == (size > 1)

    def shares() -> npt.NDArray[np.float64]:
        found, _ = index.search(vectors, queries, requested, removed=removed)
        return _overlaps(wanted, _without(found, own))

    measured = shares()
    for refine in REFINES[index.kind]:
        before = -1.0
        for effort in EFFORTS[index.kind]:
            index.refine, index.effort = refine, effort
            measured = shares()
            recall = float(measured[tuning].mean())
            if recall - _standard_error(measured[tuning]) >= target or recall == 1:
                return _estimate(measured[measuring], fresh=fresh)
            if recall - before < 0.002:  # more effort no longer helps; more candidates may
                break
            before = recall
    return _estimate(measured[measuring], fresh=fresh)


def _standard_error(shares: npt.NDArray[np.float64]) -> float:
    return float(shares.std(ddof=1) / len(shares) ** 0.5) if len(shares) > 1 else 0.0


def _estimate(shares: npt.NDArray[np.float64], *, fresh: bool) -> Recall:
    """Return the mean with its interval; a perfect sample of n still has the lower end 1 - 3 / n."""
    value, n = float(shares.mean()), len(shares)
    margin = max(1.96 * _standard_error(shares), 3 / n if value == 1 else 0.0)
    return Recall(value, max(0.0, value - margin), min(1.0, value + margin), n, fresh)


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


def _training_rows(rows: Rows, index_type: IndexType) -> Rows:
    wanted = GRAPH_TRAINING_ROWS
    if index_type.kind == "ivfpq":
        lists = int(index_type.recipe.split(",", maxsplit=1)[0].removeprefix("IVF"))
        wanted = TRAINING_ROWS_PER_LIST * lists
    generator = numpy_generator("index", "training rows")
    return np.sort(generator.choice(rows, size=min(len(rows), wanted), replace=False))


def _without(rows: Rows, own: Rows) -> list[set[int]]:
    return [
        set([row for row in found if row not in {mine, -1}][:RECALL_AT])
        for found, mine in zip(rows.tolist(), own.tolist(), strict=True)
    ]


def _overlaps(wanted: list[set[int]], found: list[set[int]]) -> npt.NDArray[np.float64]:
    return np.array([len(w & f) / len(w) if w else 1.0 for w, f in zip(wanted, found, strict=True)])
