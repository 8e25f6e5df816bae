"""``evaluate``: compute metrics of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.core.deprecation import renamed_option
from levelfield.core.errors import UsageError
from levelfield.core.seeds import torch_generator
from levelfield.metrics._clusters import contingency, kmeans
from levelfield.metrics._filtered_search import SearchRequest, search_exact
from levelfield.metrics._inputs import EvaluationInputs, check_inputs
from levelfield.metrics._registry import ResolvedMetric, resolve_metric
from levelfield.metrics._relevance import Relevance
from levelfield.metrics._scores import Scores, class_intervals
from levelfield.metrics._vectors import Distance

DEFAULT_METRICS = ("precision_at_1", "r_precision", "map_at_r")


def evaluate(
    embeddings: Any,
    labels: Any = None,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    gallery: Any = None,
    gallery_labels: Any = None,
    relevant: Any = None,
    ignore: Any = None,
    distance: Distance = "cosine",
    per_query: bool = False,
    intervals: bool = False,
    bootstrap: int | None = None,
    seed: int = 0,
    cluster_seeds: int = 3,
    index: str = "exact",
    memory: int = 256 << 20,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Score embeddings by how well they find relevant items, or cluster items of the same class.

    The relevant items of a query are those of its class, or those that ``relevant`` lists.

    Args:
        embeddings: Queries, N x D: a tensor, which stays on its device, or an array, which may be a mapped
            file.
        labels: N class labels, whole numbers or strings. Optional with ``relevant``: queries
            with the same label are then one unit of the intervals.
        metrics: Metric names, such as "map_at_r" or "recall_at_8"; `levelfield ls metrics` lists them.
        gallery: Items to search, M x D. Defaults to the queries; each is excluded from its own search.
            Clustering and structure metrics use ``embeddings`` only.
        gallery_labels: M class labels; leave them out with ``relevant``.
        relevant: For each query the list of its relevant items, as row numbers of the gallery. A query with
            an empty list is skipped.
        ignore: For each query the list of items that are neither right nor wrong, as row numbers of the
            gallery. They are taken out of its ranking.
        distance: "cosine" or "euclidean".
        per_query: Whether to return the value of each query too.
        intervals: Whether to return 95% intervals of the retrieval metrics. Queries of one class are not
            independent, so classes count as chance, as in verdicts.
        bootstrap: Old name of ``intervals``; nothing is resampled any more.
        seed: Seed of k-means and of the check of an approximate index.
        cluster_seeds: Number of k-means runs for the clustering metrics.
        index: "exact", or a faiss recipe such as "IVF1024,Flat;nprobe=16"; its recall is then reported.
        memory: Bytes that one block of similarities may take; changes the speed, never the scores.
        progress: Callback, called with the number of queries done and their total.

    Returns:
        The scores, a mapping of names to numbers.

    Example:
        >>> points = [[1, 0], [0.9, 0.1], [0, 1], [0.1, 1]]
        >>> evaluate(points, ["a", "a", "b", "b"])["map_at_r"]
        1.0
        >>> evaluate(points[:1], gallery=points[1:], relevant=[[2]], ignore=[[0]], metrics=["map"])["map"]
        1.0
    """
    if isinstance(metrics, str):
        raise UsageError(f'metrics is one string, "{metrics}"; give a list of names')
    if bootstrap is not None:
        renamed_option("bootstrap", "intervals", of="evaluate")
        intervals = bootstrap > 0
    resolved = ResolvedMetrics(metrics)
    if labels is None and resolved.by_class:
        raise UsageError(
            f"{resolved.by_class[0]} needs classes, not lists of relevant items; give labels too"
        )
    table = None
    recall = None
    with full_precision():
        given = check_inputs(
            embeddings,
            labels,
            gallery,
            gallery_labels,
            distance=distance,
            relevant=relevant,
            ignore=ignore,
        )
        if resolved.retrieval:
            request = SearchRequest(given.queries, given.gallery, given.relevance, resolved.retrieval, memory)
            table, recall = _per_query(request, index=index, seed=seed, progress=progress)
        return assemble_scores(
            given,
            labels,
            resolved,
            table,
            per_query=per_query,
            intervals=intervals,
            seed=seed,
            cluster_seeds=cluster_seeds,
            recall=recall,
            notes=() if recall is None else (_index_note(index, recall),),
        )


class ResolvedMetrics:
    """Metrics of an evaluation, by kind and in the requested order.

    Attributes:
        names: All names.
        retrieval: Metrics of ranks.
        clustering: Metrics of clusters.
        structure: Metrics of the space.
        by_class: Names of the metrics that need classes.
    """

    def __init__(self, names: Sequence[str]) -> None:
        resolved = {name: resolve_metric(name) for name in names}
        if not resolved:
            raise UsageError("metrics is empty; name at least one metric")
        self.names = tuple(resolved)
        self.retrieval, self.clustering, self.structure = (
            [m for m in resolved.values() if m.card.kind == kind]
            for kind in ("retrieval", "clustering", "structure")
        )
        self.by_class = [m.name for m in resolved.values() if m.card.kind != "retrieval"]


def assemble_scores(
    given: EvaluationInputs,
    labels: Any,
    resolved: ResolvedMetrics,
    table: Tensor | None,
    *,
    per_query: bool = False,
    intervals: bool = False,
    seed: int = 0,
    cluster_seeds: int = 3,
    recall: float | None = None,
    notes: tuple[str, ...] = (),
) -> Scores:
    """Return all scores, of which ``table`` (metrics x N) holds the values of retrieval metrics by query."""
    rows = np.empty((0, 0)) if table is None else table.cpu().numpy()
    values: dict[str, npt.NDArray[np.float64]] = {
        metric.name: each for metric, each in zip(resolved.retrieval, rows, strict=True)
    }
    scores = {name: float(np.nanmean(each)) for name, each in values.items()}
    spread: dict[str, float] = {}
    if resolved.clustering:
        runs = _clustering(given, resolved.clustering, seeds=cluster_seeds, seed=seed)
        scores |= {name: float(np.mean(each)) for name, each in runs.items()}
        spread = {name: float(np.std(each, ddof=1)) for name, each in runs.items() if len(each) > 1}
    scores |= {m.name: m.compute(given.space) for m in resolved.structure}
    found = given.relevance.relevant
    # Queries with one label are one unit of the statistics; without labels each query is its own.
    units = np.arange(len(found)) if labels is None else given.space.labels.cpu().numpy()
    return Scores(
        {name: scores[name] for name in resolved.names},
        queries=int((found > 0).sum()),
        skipped=int((found == 0).sum()),
        per_query=values if per_query else {},
        intervals=class_intervals(values, units) if intervals else {},
        spread=spread,
        index_recall=recall,
        notes=(*_notes(given, resolved.retrieval), *notes),
    )


@contextmanager
def full_precision() -> Iterator[None]:
    """Disable gradients, autocast and TF32: the search relies on the rounding error of float32 products."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def _per_query(
    request: SearchRequest, *, index: str, seed: int, progress: Callable[[int, int], None] | None
) -> tuple[Tensor, float | None]:
    """Return the metrics' values (metrics x N), NaN for queries without relevant items, and the recall."""
    rows = rows_with_relevant_items(request.relevance)
    recall = None
    if index == "exact":
        blocks = search_exact(request, rows)
    else:
        from levelfield.metrics._approximate import ApproximateSearch

        approximate = ApproximateSearch(request, index, seed=seed)
        blocks, recall = approximate.hits(rows), approximate.recall(rows)
    shape = (len(request.metrics), len(request.queries))
    values = torch.full(shape, torch.nan, dtype=torch.float64, device=rows.device)
    done = 0
    for block, hits in blocks:
        for number, metric in enumerate(request.metrics):
            values[number, block] = metric.compute(hits)
        done += len(block)
        if progress is not None:
            progress(done, len(rows))
    return values, recall


def rows_with_relevant_items(relevance: Relevance) -> Tensor:
    """Return the queries that have a relevant item; raise UsageError if there are none."""
    rows = (relevance.relevant > 0).nonzero()[:, 0]
    if not len(rows):
        raise UsageError(
            "no query has a relevant item; give classes with at least two items, or lists that are not empty"
        )
    return rows


def _clustering(
    given: EvaluationInputs, metrics: Sequence[ResolvedMetric], *, seeds: int, seed: int
) -> dict[str, list[float]]:
    """Return the clustering metrics for each seed of k-means."""
    if seeds < 1:
        raise UsageError(f"cluster_seeds is {seeds}; set it to 1 or more")
    labels: Tensor = given.space.labels
    rows = given.queries.exact(slice(None)).float()
    runs: dict[str, list[float]] = {metric.name: [] for metric in metrics}
    for number in range(seeds):
        clusters = kmeans(
            rows, int((torch.bincount(labels) > 0).sum()), torch_generator("metrics", "kmeans", seed, number)
        )
        table = contingency(labels.cpu().numpy(), clusters.cpu().numpy())
        for metric in metrics:
            runs[metric.name].append(metric.compute(table))
    return runs


def _notes(given: EvaluationInputs, metrics: Sequence[ResolvedMetric]) -> tuple[str, ...]:
    items = len(given.gallery) - int(given.relevance.exclude_self)
    beyond = [m.name for m in metrics if m.k is not None and m.k > items]
    if not beyond:
        return ()
    return (f"{', '.join(beyond)}: K is larger than the {items} items that a query is ranked against",)


def _index_note(index: str, recall: float) -> str:
    return f"approximate search ({index}): the index finds {recall:.2%} of the true nearest items"
