"""``evaluate``: the public door to the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.metrics._clusters import contingency, kmeans
from levelfield.metrics._inputs import Inputs, check
from levelfield.metrics._registry import Measure, resolve
from levelfield.metrics._scores import Scores, bootstrap_intervals
from levelfield.metrics._sieve import Task, search
from levelfield.metrics._vectors import Distance
from levelfield.seeds import torch_generator

DEFAULT = ("precision_at_1", "r_precision", "map_at_r")


def evaluate(
    embeddings: Any,
    labels: Any,
    *,
    metrics: Sequence[str] = DEFAULT,
    gallery: Any = None,
    gallery_labels: Any = None,
    distance: Distance = "cosine",
    per_query: bool = False,
    bootstrap: int = 0,
    seed: int = 0,
    cluster_seeds: int = 3,
    index: str = "exact",
    memory: int = 256 << 20,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Score embeddings by how well they find, or cluster, items of the same class.

    Args:
        embeddings: Queries, N x D: a tensor (it stays on its device) or an array (it may be a mapped file).
        labels: N class labels, whole numbers or strings.
        metrics: Names of measures, such as "map_at_r" or "recall_at_8"; `levelfield ls metrics` lists them.
        gallery: Where to search, M x D. By default the queries themselves, each excluded from its own search.
            Measures of clusters and structure look at ``embeddings`` only.
        gallery_labels: M class labels.
        distance: "cosine" or "euclidean".
        per_query: Also return the value of each query.
        bootstrap: How many resamples of the queries to draw for 95% intervals; 0 for none.
        seed: Seeds k-means, the bootstrap and the check of an approximate index.
        cluster_seeds: How many times to run k-means for the clustering measures.
        index: "exact", or a faiss recipe such as "IVF1024,Flat;nprobe=16"; its recall is then reported.
        memory: Bytes that one block of similarities may take; it changes the speed, never the scores.
        progress: Called with the number of queries done and their total, now and then.

    Returns:
        The scores, a mapping of names to numbers.

    Example:
        >>> evaluate([[1, 0], [0.9, 0.1], [0, 1], [0.1, 1]], ["a", "a", "b", "b"])["map_at_r"]
        1.0
    """
    if isinstance(metrics, str):
        raise UsageError(f'metrics is one string, "{metrics}"; give a list of names')
    measures = {name: resolve(name) for name in metrics}
    if not measures:
        raise UsageError("metrics is empty; name at least one measure")
    kinds = {
        kind: [m for m in measures.values() if m.card.kind == kind] for kind in ("retrieval", "clustering")
    }
    scores: dict[str, float] = {}
    values: dict[str, npt.NDArray[np.float64]] = {}
    spread: dict[str, float] = {}
    recall = None
    with _full_precision():
        given = check(embeddings, labels, gallery, gallery_labels, distance=distance)
        if kinds["retrieval"]:
            task = Task(given.queries, given.gallery, given.relevance, kinds["retrieval"], memory)
            values, recall = _per_query(task, index=index, seed=seed, progress=progress)
            scores |= {name: float(np.nanmean(each)) for name, each in values.items()}
        if kinds["clustering"]:
            runs = _clustering(given, kinds["clustering"], seeds=cluster_seeds, seed=seed)
            scores |= {name: float(np.mean(each)) for name, each in runs.items()}
            spread = {name: float(np.std(each, ddof=1)) for name, each in runs.items() if len(each) > 1}
        scores |= {m.name: m.compute(given.space) for m in measures.values() if m.card.kind == "structure"}
    relevant = given.relevance.relevant
    return Scores(
        {name: scores[name] for name in measures},
        queries=int((relevant > 0).sum()),
        skipped=int((relevant == 0).sum()),
        per_query=values if per_query else {},
        intervals=bootstrap_intervals(values, resamples=bootstrap, seed=seed) if bootstrap else {},
        spread=spread,
        index_recall=recall,
        notes=_notes(given, kinds["retrieval"], index, recall),
    )


@contextmanager
def _full_precision() -> Iterator[None]:
    """No gradients, and no shortcuts (TF32, bfloat16) in float32 products, whose rounding must be known."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def _per_query(
    task: Task, *, index: str, seed: int, progress: Callable[[int, int], None] | None
) -> tuple[dict[str, npt.NDArray[np.float64]], float | None]:
    """Each measure's values (N,), NaN where there is nothing to find; and the recall of the index."""
    relevant = task.relevance.relevant
    rows = (relevant > 0).nonzero()[:, 0]
    if not len(rows):
        raise UsageError(
            "no query has another item of its class to find; give classes with at least two items"
        )
    recall = None
    if index == "exact":
        blocks = search(task, rows)
    else:
        from levelfield.metrics._approximate import ApproximateSearch

        approximate = ApproximateSearch(task, index, seed=seed)
        blocks, recall = approximate.hits(rows), approximate.recall(rows)
    values = torch.full(
        (len(task.measures), len(relevant)), torch.nan, dtype=torch.float64, device=rows.device
    )
    done = 0
    for block, hits in blocks:
        for number, measure in enumerate(task.measures):
            values[number, block] = measure.compute(hits)
        done += len(block)
        if progress is not None:
            progress(done, len(rows))
    table: npt.NDArray[np.float64] = values.cpu().numpy()
    return {measure.name: each for measure, each in zip(task.measures, table, strict=True)}, recall


def _clustering(
    given: Inputs, measures: Sequence[Measure], *, seeds: int, seed: int
) -> dict[str, list[float]]:
    """The clustering measures for each seed of k-means."""
    if seeds < 1:
        raise UsageError(f"cluster_seeds is {seeds}; k-means must run at least once")
    labels: Tensor = given.space.labels
    rows = given.queries.exact(slice(None)).float()
    runs: dict[str, list[float]] = {measure.name: [] for measure in measures}
    for number in range(seeds):
        clusters = kmeans(
            rows, int((torch.bincount(labels) > 0).sum()), torch_generator("metrics", "kmeans", seed, number)
        )
        table = contingency(labels.cpu().numpy(), clusters.cpu().numpy())
        for measure in measures:
            runs[measure.name].append(measure.compute(table))
    return runs


def _notes(given: Inputs, measures: Sequence[Measure], index: str, recall: float | None) -> tuple[str, ...]:
    notes = []
    items = len(given.gallery) - int(given.relevance.itself)
    beyond = [m.name for m in measures if m.k is not None and m.k > items]
    if beyond:
        notes.append(
            f"{', '.join(beyond)}: K is larger than the {items} items that a query is ranked against"
        )
    if recall is not None:
        notes.append(f"approximate search ({index}): the index finds {recall:.2%} of the true nearest items")
    return tuple(notes)
