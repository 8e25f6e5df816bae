"""Approximate search with faiss: which kind, built how, and how much it finds.

What faiss proposes is measured again with the exact vectors, which are mapped into memory: compression
costs candidates, never the order of those found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

from levelfield.errors import RunError, UsageError
from levelfield.files import disk_errors, replacing
from levelfield.index._exact import search_exactly
from levelfield.index._vectors import REMEDY, Floats, Rows, Vectors
from levelfield.seeds import numpy_generator

Kind = Literal["exact", "hnsw", "ivfpq"]
EXACT_UP_TO = 200_000  # rows; at 128 numbers a row a query then takes about as long as a forward pass
LINKS = 32  # of HNSW
TRAINING_ROWS_PER_LIST = 64
PIECE = 1 << 15
SAMPLE = 500  # queries on which the recall is measured
UNTRAINED = 16  # every so many rows, one that lists are not trained on: only these can judge them fairly
RECALL_AT = 10
EFFORTS: dict[Kind, tuple[int, ...]] = {
    "hnsw": (16, 32, 64, 128, 256, 512),
    "ivfpq": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
}
REFINES: dict[Kind, tuple[int, ...]] = {"hnsw": (2,), "ivfpq": (4, 16, 64)}
GRAPH_TRAINING_ROWS = 1 << 16  # the range of 8-bit numbers is soon known


class Approximation(BaseModel):
    """What an index remembers of its approximate part.

    Attributes:
        kind: "hnsw" (a graph over vectors of 8 bits a number) or "ivfpq" (lists of compressed vectors).
        recipe: faiss's name for it.
        rows: How many rows it covers; those after them are searched exactly.
        effort: How far a search looks: efSearch of a graph, nprobe of lists.
        refine: How many candidates are measured exactly, per answer asked for.
        recall: The share of the true nearest 10 that it finds, on a sample of the index's own vectors.
        sample: How many queries that was measured on.
        target: The recall that the effort was chosen for.
        bytes: Its size.
        removed: How many rows were removed when that was measured.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    recipe: str
    rows: int
    effort: int
    refine: int
    recall: float
    sample: int
    target: float
    bytes: int
    removed: int = 0


@dataclass(frozen=True)
class Choice:
    """Which kind of search suits a number of rows, and what it takes in memory."""

    kind: Kind
    recipe: str
    bytes: int


def choose(rows: int, size: int, *, memory: int, exact_up_to: int = EXACT_UP_TO) -> Choice:
    """The kind of search for ``rows`` vectors of ``size`` numbers within ``memory`` bytes.

    Exact up to ``exact_up_to`` rows; then a graph (HNSW), the most accurate at its speed, if it fits
    into memory; else compressed lists (IVF-PQ), which take a few bytes a row. The exact vectors stay on disk
    and are read where needed.

    Example:
        >>> choose(1_000_000, 128, memory=8 << 30).kind, choose(1_000_000, 128, memory=100 << 20).kind
        ('hnsw', 'ivfpq')
    """
    if rows <= exact_up_to:
        return Choice("exact", "Flat", 0)
    graph = rows * (size + LINKS * 2 * 4 + 16)
    if graph <= memory:
        return Choice("hnsw", f"HNSW{LINKS},SQ8", graph)
    lists = 1 << max(4, round(np.log2(4 * rows**0.5)))
    options = [
        (4, size / 2),
        (8, size / 4),
        (8, size / 8),
        (8, size / 16),
    ]  # numbers of bits, codes per vector
    for bits, codes in options:
        whole = max(1, int(codes))
        taken = int(rows * (whole * bits / 8 + 8) + lists * size * 4)
        if size % whole == 0 and taken <= memory:
            recipe = f"IVF{lists},PQ{whole}x4fs" if bits == 4 else f"IVF{lists},PQ{whole}"
            return Choice("ivfpq", recipe, taken)
    raise UsageError(
        f"{rows:,} vectors of {size} numbers need {taken / 1e9:.1f} GB even compressed, --memory allows "
        f"{memory / 1e9:.1f} GB; allow more, or make the embeddings smaller by whitening"
    )


class Approximate:
    """A faiss index with the effort that its searches make."""

    def __init__(self, index: Any, kind: Kind, *, effort: int, refine: int) -> None:
        self._index = index
        self.kind = kind
        self.effort = effort
        self.refine = refine

    @property
    def rows(self) -> int:
        """How many rows it covers."""
        return int(self._index.ntotal)

    def search(self, vectors: Vectors, queries: Floats, count: int, *, removed: Rows) -> tuple[Rows, Floats]:
        """As :func:`search_exactly`, among the rows that it covers; what it does not find stays unfound."""
        faiss = require_faiss()
        wanted = min(max(count, RECALL_AT) * self.refine, self.rows)
        selector = faiss.IDSelectorNot(faiss.IDSelectorBatch(removed)) if len(removed) else None
        if self.kind == "hnsw":
            options = faiss.SearchParametersHNSW(efSearch=max(self.effort, wanted), sel=selector)
        else:
            options = faiss.SearchParametersIVF(nprobe=self.effort, sel=selector)
        # faiss.contrib.torch_utils, which other packages import, puts a search without params in its place.
        search = getattr(self._index, "search_numpy", self._index.search)
        _, candidates = search(queries, wanted, params=options)
        return _measured(vectors, queries, candidates, count)

    def add(self, vectors: Vectors) -> None:
        """Take in the rows that it does not cover yet."""
        for _, shard in vectors.shards(self.rows):
            for start in range(0, len(shard), PIECE):
                self._index.add(np.ascontiguousarray(shard[start : start + PIECE]))

    def write(self, file: Path) -> int:
        """Write it, whole or not at all; how many bytes it takes."""
        faiss = require_faiss()
        with disk_errors(file, remedy=REMEDY), replacing(file) as temporary:
            try:
                faiss.write_index(self._index, str(temporary))
            except RuntimeError as error:
                raise OSError(0, str(error).splitlines()[-1]) from error
        return file.stat().st_size


def build(
    vectors: Vectors, choice: Choice, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> Approximate:
    """Build the index that was chosen from all vectors."""
    faiss = require_faiss()
    index = faiss.index_factory(vectors.size, choice.recipe, faiss.METRIC_INNER_PRODUCT)
    if choice.kind == "ivfpq":
        faiss.extract_index_ivf(index).cp.seed = 1  # of k-means: the same vectors give the same index
    if not index.is_trained:
        index.train(vectors.take(_training_rows(vectors, choice)))
    kind = choice.kind
    made = Approximate(index, kind, effort=EFFORTS[kind][0], refine=REFINES[kind][0])
    for start, shard in vectors.shards():
        for at in range(0, len(shard), PIECE):
            index.add(np.ascontiguousarray(shard[at : at + PIECE]))
            progress(start + min(at + PIECE, len(shard)), vectors.count)
    return made


def tune(index: Approximate, vectors: Vectors, *, target: float, removed: Rows) -> tuple[float, int]:
    """Give ``index`` the least effort that reaches the recall ``target``; that recall, and the sample's size.

    The queries are rows of the index itself that lists were not trained on; each is left out of its own
    answers, which would be too easy. Queries unlike anything in the index find less than that.
    """
    if not 0 < target <= 1:
        raise UsageError(f"the recall to aim at is {target}; it must lie between 0 and 1")
    alive = np.setdiff1d(np.arange(index.rows), removed)
    generator = numpy_generator("index", "recall")
    fair = alive[alive % UNTRAINED == 0]
    fair = fair if len(fair) >= SAMPLE // 5 else alive
    sample = np.sort(generator.choice(fair, size=min(SAMPLE, len(fair)), replace=False))
    queries = vectors.take(sample)
    asked = RECALL_AT + 1
    wanted = _without(search_exactly(vectors, queries, asked, removed=removed)[0], sample)
    recall = 0.0
    for refine in REFINES[index.kind]:
        before = -1.0
        for effort in EFFORTS[index.kind]:
            index.refine, index.effort = refine, effort
            found, _ = index.search(vectors, queries, asked, removed=removed)
            recall = _overlap(wanted, _without(found, sample))
            if recall >= target:
                return recall, len(sample)
            if recall - before < 0.002:  # looking farther no longer helps; only more candidates can
                break
            before = recall
    return recall, len(sample)


def read(file: Path, facts: Approximation, *, mapped: bool = True) -> Approximate:
    """The approximate part that was written to ``file``; mapped into memory, or read to be added to."""
    faiss = require_faiss()
    try:
        # Older faiss versions cannot map a graph and read it instead.
        index = faiss.read_index(str(file), getattr(faiss, "IO_FLAG_MMAP_IFC", 0) if mapped else 0)
    except RuntimeError as error:
        raise RunError(
            f"{file} cannot be read ({str(error).splitlines()[-1]}); delete it and index again"
        ) from error
    if index.ntotal != facts.rows:
        raise RunError(f"{file} is of another index; give the same index command again to build it")
    return Approximate(index, facts.kind, effort=facts.effort, refine=facts.refine)


def require_faiss() -> Any:
    """faiss, or one line that says how to get it."""
    try:
        import faiss
    except ImportError as error:
        raise UsageError(
            f"an index of more than {EXACT_UP_TO:,} pictures needs faiss; run pip install 'levelfield[ann]'"
        ) from error
    return faiss


def _measured(vectors: Vectors, queries: Floats, candidates: Rows, count: int) -> tuple[Rows, Floats]:
    """The best ``count`` of the candidates (Q x n, -1 for none) by their exact similarity."""
    values = _similarities(vectors, queries, candidates)
    found = torch.from_numpy(values).topk(min(count, values.shape[1]), dim=1)
    rows, best = np.take_along_axis(candidates, found.indices.numpy(), 1), found.values.numpy()
    missing = count - rows.shape[1]
    if missing > 0:
        rows = np.pad(rows, ((0, 0), (0, missing)), constant_values=-1)
        best = np.pad(best, ((0, 0), (0, missing)), constant_values=-np.inf)
    return rows, best


def _similarities(vectors: Vectors, queries: Floats, candidates: Rows) -> Floats:
    """The similarity of each query to its own candidates (Q x n), -inf where there is none.

    By faiss's own routine, which reads the rows where they lie: copying them takes longer than measuring.
    """
    faiss = require_faiss()
    pointer, given = faiss.swig_ptr, np.ascontiguousarray(queries, dtype=np.float32)
    found: list[Floats] = []
    for first, shard in vectors.shards():
        here = np.ascontiguousarray(candidates)
        if len(shard) < vectors.count:  # those of other files are none of this one's, which faiss calls -1
            here = np.where((here >= first) & (here < first + len(shard)), here - first, -1)
        values = np.empty(here.shape, dtype=np.float32)
        faiss.fvec_inner_products_by_idx(
            pointer(values), pointer(given), pointer(shard), pointer(here), vectors.size, *here.shape
        )
        found.append(values)
    return found[0] if len(found) == 1 else np.maximum.reduce(found)


def _training_rows(vectors: Vectors, choice: Choice) -> Rows:
    wanted = GRAPH_TRAINING_ROWS
    if choice.kind == "ivfpq":
        lists = int(choice.recipe.split(",", maxsplit=1)[0].removeprefix("IVF"))
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
