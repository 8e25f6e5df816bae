"""``evaluate``: the public door to the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.metrics._labels import encode, relevance
from levelfield.metrics._registry import Measure, resolve
from levelfield.metrics._scores import Scores
from levelfield.metrics._search import Task, search
from levelfield.metrics._vectors import Distance, Vectors, as_source, check_rows, frame_of

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
    memory: int = 256 << 20,
) -> Scores:
    """Score embeddings by how well they find items of the same class.

    Args:
        embeddings: Queries, N x D: a tensor (it stays on its device) or an array.
        labels: N class labels, whole numbers or strings.
        metrics: Names of measures.
        gallery: Where to search, M x D. By default the queries themselves, each excluded from its own search.
        gallery_labels: M class labels.
        distance: "cosine" or "euclidean".
        per_query: Also return the value of each query.
        memory: Bytes that one block of similarities may take; it changes the speed, never the scores.

    Returns:
        The scores, a mapping of names to numbers.

    Example:
        >>> evaluate([[1, 0], [0.9, 0.1], [0, 1], [0.1, 1]], ["a", "a", "b", "b"])["map_at_r"]
        1.0
    """
    if isinstance(metrics, str):
        raise UsageError(f'metrics is one string, "{metrics}"; give a list of names')
    measures = [resolve(name) for name in dict.fromkeys(metrics)]
    if not measures:
        raise UsageError("metrics is empty; name at least one measure")
    if (gallery is None) != (gallery_labels is None):
        raise UsageError("gallery and gallery_labels belong together; give both or neither")
    queries = as_source("embeddings", embeddings)
    items = queries if gallery is None else as_source("gallery", gallery)
    asked, held, classes = encode(labels, gallery_labels)
    _check_sides(queries, items, asked, held)
    with torch.no_grad(), torch.autocast(queries.device.type, enabled=False):
        for name, side in {"embeddings": queries, "gallery": items}.items():
            if name == "embeddings" or gallery is not None:
                check_rows(name, side, distance)
        frame = frame_of(items, distance)
        sides = Vectors(queries, frame)
        known = relevance(asked.to(queries.device), held.to(queries.device), classes, itself=gallery is None)
        task = Task(sides, sides if gallery is None else Vectors(items, frame), known, measures, memory)
        values = _per_query(task)
    scored = ~torch.isnan(values[0])
    count = int(scored.sum())
    return Scores(
        {measure.name: float(v[scored].mean()) for measure, v in zip(measures, values, strict=True)},
        queries=count,
        skipped=len(asked) - count,
        per_query={m.name: np.asarray(v.cpu()) for m, v in zip(measures, values, strict=True)}
        if per_query
        else {},
    )


def _check_sides(queries: Tensor, items: Tensor, asked: Tensor, held: Tensor) -> None:
    if len(queries) != len(asked):
        raise UsageError(f"embeddings has {len(queries)} rows but labels has {len(asked)}; they must match")
    if len(items) != len(held):
        raise UsageError(f"gallery has {len(items)} rows but gallery_labels has {len(held)}; they must match")
    if queries.shape[1] != items.shape[1]:
        raise UsageError(
            f"embeddings have {queries.shape[1]} dimensions but the gallery has {items.shape[1]}; "
            "both must come from one model"
        )
    if queries.device != items.device:
        raise UsageError(
            f"embeddings are on {queries.device} but the gallery is on {items.device}; move one of them"
        )


def _per_query(task: Task) -> Tensor:
    """float64 (measures, N): the value of each query; NaN where there is nothing to find."""
    relevant = task.relevance.relevant
    rows = (relevant > 0).nonzero()[:, 0]
    if not len(rows):
        raise UsageError(
            "no query has another item of its class to find; give classes with at least two items"
        )
    values = torch.full(
        (len(task.measures), len(relevant)), torch.nan, dtype=torch.float64, device=rows.device
    )
    for block, hits in search(task, rows):
        for number, measure in enumerate(task.measures):
            values[number, block] = measure.compute(hits)
    return values


def names_of(measures: Sequence[Measure]) -> tuple[str, ...]:
    """The names of ``measures``."""
    return tuple(measure.name for measure in measures)
