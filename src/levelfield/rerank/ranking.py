"""Rankings: for every query the rows of the gallery, most similar first, and how good they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.metrics import Hits, resolve

BLOCK_BYTES = 64 << 20


def nearest(queries: Tensor, gallery: Tensor, count: int, *, itself: bool = False) -> tuple[Tensor, Tensor]:
    """The ``count`` most similar rows of the gallery for every query, and their similarities.

    Args:
        queries: Unit vectors, Q x D.
        gallery: Unit vectors, N x D.
        count: k, how many; cut down to what the gallery holds.
        itself: Whether query i is row i of the gallery and must not find itself.

    Returns:
        Rows (int64) and similarities (float32), both Q x k, most similar first.

    Example:
        >>> corners = torch.eye(2)
        >>> nearest(corners, corners, 1, itself=True)[0].tolist()
        [[1], [0]]
    """
    if count < 1:
        raise UsageError(f"a ranking of {count} rows is empty; ask for at least 1")
    count = min(count, len(gallery) - int(itself))
    rows = torch.empty(len(queries), count, dtype=torch.int64)
    values = torch.empty(len(queries), count)
    height = max(1, BLOCK_BYTES // (4 * len(gallery)))
    for start in range(0, len(queries), height):
        similarities = queries[start : start + height] @ gallery.T
        if itself:
            here = torch.arange(len(similarities))
            similarities[here, here + start] = -torch.inf
        values[start : start + height], rows[start : start + height] = similarities.topk(count, dim=1)
    return rows, values


def score_ranking(
    rows: Tensor, labels: Tensor, gallery_labels: Tensor, metrics: Sequence[str], *, itself: bool = False
) -> dict[str, npt.NDArray[np.float64]]:
    """The value of each retrieval measure for each query; NaN where there is nothing to find.

    Args:
        rows: Rankings, Q x K; K must be at least what each measure looks at: its own K, or R (MAP@R).
        labels: The class of each query, int64 (Q,).
        gallery_labels: The class of each row of the gallery, int64 (N,).
        metrics: Names such as "map_at_100", "map_at_r", "precision_at_1".
        itself: Whether query i is row i of the gallery; it then does not count as relevant to itself.

    Example:
        >>> rows = torch.tensor([[1, 2], [0, 2], [1, 0]])
        >>> classes = torch.tensor([0, 0, 1])
        >>> score_ranking(rows, classes, classes, ["precision_at_1"], itself=True)["precision_at_1"]
        array([ 1.,  1., nan])
    """
    sizes = torch.bincount(gallery_labels, minlength=int(labels.max()) + 1)
    relevant = sizes[labels] - int(itself)
    scored = (relevant > 0).nonzero()[:, 0]
    is_hit = gallery_labels[rows[scored]] == labels[scored][:, None]
    row, column = is_hit.nonzero(as_tuple=True)
    hits = Hits(
        row=row,
        rank=column + 1,
        nth=is_hit.cumsum(1)[row, column],
        relevant=relevant[scored],
        gallery=len(gallery_labels) - int(itself),
    )
    values = {}
    for name in metrics:
        measure = resolve(name)
        depth = _depth(measure.k or measure.card.depth, hits)
        if measure.card.kind != "retrieval" or depth > rows.shape[1]:
            raise UsageError(
                f"{name} cannot be told from rankings of {rows.shape[1]} rows; rank more, or drop it"
            )
        table = np.full(len(labels), np.nan)
        table[scored.numpy()] = measure.compute(hits).numpy()
        values[name] = table
    return values


def depth_for(metrics: Sequence[str], labels: Tensor, gallery_labels: Tensor, *, itself: bool = False) -> int:
    """How long rankings must be for these measures.

    Example:
        >>> classes = torch.tensor([0, 0, 0, 1])
        >>> depth_for(["map_at_r", "precision_at_1"], classes, classes, itself=True)
        2
    """
    relevant = torch.bincount(gallery_labels, minlength=int(labels.max()) + 1)[labels] - int(itself)
    items = len(gallery_labels) - int(itself)
    every = Hits(row=relevant, rank=relevant, nth=relevant, relevant=relevant, gallery=items)
    wanted = [_depth(measure.k or measure.card.depth, every) for measure in map(resolve, metrics)]
    return max(1, *wanted)


def _depth(depth: int | str, hits: Hits) -> int:
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
