"""Rankings of the gallery for every query, most similar first, and their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.metrics import RelevantHits, resolve_metric, score_rankings

BLOCK_BYTES = 64 << 20


def nearest(
    queries: Tensor, gallery: Tensor, count: int, *, exclude_self: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the ``count`` most similar rows of the gallery for every query, and their similarities.

    Args:
        queries: Unit vectors, Q x D.
        gallery: Unit vectors, N x D.
        count: Number k of rows; limited to the size of the gallery.
        exclude_self: If true, query i is gallery row i and is excluded from its own ranking.

    Returns:
        Rows (int64) and similarities (float32), both Q x k, most similar first.

    Example:
        >>> corners = torch.eye(2)
        >>> nearest(corners, corners, 1, exclude_self=True)[0].tolist()
        [[1], [0]]
    """
    if count < 1:
        raise UsageError(f"a ranking of {count} rows is empty; ask for at least 1")
    count = min(count, len(gallery) - int(exclude_self))
    rows = torch.empty(len(queries), count, dtype=torch.int64)
    values = torch.empty(len(queries), count)
    height = max(1, BLOCK_BYTES // (4 * len(gallery)))
    for start in range(0, len(queries), height):
        similarities = queries[start : start + height] @ gallery.T
        if exclude_self:
            here = torch.arange(len(similarities))
            similarities[here, here + start] = -torch.inf
        values[start : start + height], rows[start : start + height] = similarities.topk(count, dim=1)
    return rows, values


def ranked_blocks(
    queries: Tensor, gallery: Tensor, depth: int | None, *, exclude_self: bool = False
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield blocks of queries with their ``depth`` most similar rows (None: all) and the similarities.

    Example:
        >>> corners = torch.eye(2)
        >>> [rows.tolist() for _, rows, _ in ranked_blocks(corners[:1], corners, None)]
        [[[0, 1]]]
    """
    depth = len(gallery) if depth is None else depth
    height = max(1, BLOCK_BYTES // (16 * len(gallery)))
    for start in range(0, len(queries), height):
        part = slice(start, min(start + height, len(queries)))
        if not exclude_self:
            yield part, *nearest(queries[part], gallery, depth)
            continue
        itself = torch.arange(part.start, part.stop)[:, None]
        rows, similarities = nearest(queries[part], gallery, min(depth, len(gallery) - 1) + 1)
        other = rows != itself
        other[other.all(1), -1] = False  # the query itself is not among the rows: drop the last one
        shape = len(rows), rows.shape[1] - 1
        yield part, rows[other].view(shape), similarities[other].view(shape)


def score_ranking(
    rows: Tensor,
    labels: Tensor,
    gallery_labels: Tensor,
    metrics: Sequence[str],
    *,
    exclude_self: bool = False,
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the value of each retrieval metric for each query; NaN for queries without a relevant row.

    Args:
        rows: Rankings, Q x K. K must cover the depth of each metric: its own K, or R (MAP@R).
        labels: Class of each query, int64 (Q,).
        gallery_labels: Class of each gallery row, int64 (N,).
        metrics: Names such as "map_at_100", "map_at_r", "precision_at_1".
        exclude_self: If true, query i is gallery row i and does not count as relevant to itself.

    Example:
        >>> rows = torch.tensor([[1, 2], [0, 2], [1, 0]])
        >>> classes = torch.tensor([0, 0, 1])
        >>> score_ranking(rows, classes, classes, ["precision_at_1"], exclude_self=True)["precision_at_1"]
        array([ 1.,  1., nan])
    """
    sizes = torch.bincount(gallery_labels, minlength=int(labels.max()) + 1)
    relevant = sizes[labels] - int(exclude_self)
    scored = (relevant > 0).nonzero()[:, 0]
    is_hit = gallery_labels[rows[scored]] == labels[scored][:, None]
    row, column = is_hit.nonzero(as_tuple=True)
    hits = RelevantHits(
        row=row,
        rank=column + 1,
        nth=is_hit.cumsum(1)[row, column],
        relevant=relevant[scored],
        gallery=len(gallery_labels) - int(exclude_self),
    )
    values = {}
    for name in metrics:
        metric = resolve_metric(name)
        depth = _depth(metric.k or metric.card.depth, hits)
        if metric.card.kind != "retrieval" or depth > rows.shape[1]:
            raise UsageError(
                f"{name} cannot be computed from rankings of {rows.shape[1]} rows; rank more rows, or drop it"
            )
        table = np.full(len(labels), np.nan)
        table[scored.numpy()] = metric.compute(hits).numpy()
        values[name] = table
    return values


def score_listed_ranking(
    rows: Tensor, relevant: Sequence[Any], ignored: Sequence[Any] | None, metrics: Sequence[str]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the value of each retrieval metric for each query, by lists of relevant and ignored rows.

    Args:
        rows: Rankings, Q x K, of the depth of :func:`listed_depth`, without the query itself.
        relevant: Relevant rows of each query; the value of a query without any is NaN.
        ignored: Rows that are taken out of each query's ranking; None if there are none.
        metrics: Names of retrieval metrics.

    Example:
        >>> score_listed_ranking(torch.tensor([[2, 0, 1]]), [[0]], [[2]], ["precision_at_1"])
        {'precision_at_1': array([1.])}
    """
    kept, hidden = (
        None if lists is None else [np.asarray(each).tolist() for each in lists]
        for lists in (relevant, ignored)
    )
    assert kept is not None, "a set without lists is scored by class"
    return score_rankings(rows.tolist(), kept, metrics, ignore=hidden)


def listed_depth(
    metrics: Sequence[str], relevant: Sequence[Any], ignored: Sequence[Any] | None, items: int
) -> int:
    """Return the ranking length that these metrics need for lists, among ``items`` items.

    Example:
        >>> listed_depth(["map_at_r"], [[4, 5], [1]], [[0, 2, 3], []], 9)
        5
    """
    counts = torch.tensor([len(each) for each in relevant])
    every = RelevantHits(row=counts, rank=counts, nth=counts, relevant=counts, gallery=items)
    wanted = max(_depth(metric.k or metric.card.depth, every) for metric in map(resolve_metric, metrics))
    hidden = max((len(each) for each in ignored or ()), default=0)
    return min(items, max(1, wanted) + hidden)


def required_depth(
    metrics: Sequence[str], labels: Tensor, gallery_labels: Tensor, *, exclude_self: bool = False
) -> int:
    """Return the ranking length that these metrics need.

    Example:
        >>> classes = torch.tensor([0, 0, 0, 1])
        >>> required_depth(["map_at_r", "precision_at_1"], classes, classes, exclude_self=True)
        2
    """
    relevant = torch.bincount(gallery_labels, minlength=int(labels.max()) + 1)[labels] - int(exclude_self)
    items = len(gallery_labels) - int(exclude_self)
    every = RelevantHits(row=relevant, rank=relevant, nth=relevant, relevant=relevant, gallery=items)
    wanted = [_depth(metric.k or metric.card.depth, every) for metric in map(resolve_metric, metrics)]
    return max(1, *wanted)


def _depth(depth: int | str, hits: RelevantHits) -> int:
    match depth:
        case int():
            deep = depth
        case "r":
            deep = int(hits.relevant.max())
        case "r+1":
            deep = int(hits.relevant.max()) + 1
        case _:
            deep = hits.gallery
    return min(deep, hits.gallery)
