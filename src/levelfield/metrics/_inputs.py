"""The border: what a caller gives, checked once and put in a form to compute with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from levelfield.errors import UsageError
from levelfield.metrics._relevance import Relevance, encode, relevance
from levelfield.metrics._vectors import Distance, Vectors, as_source, check_rows, frame_of
from levelfield.metrics.structure import Space


@dataclass(frozen=True)
class Inputs:
    """Both sides of a search, who is relevant to whom, and the queries as a space."""

    queries: Vectors
    gallery: Vectors
    relevance: Relevance
    space: Space


def check(embeddings: Any, labels: Any, gallery: Any, gallery_labels: Any, *, distance: Distance) -> Inputs:
    """Refuse what cannot be scored, with an error that names it; see :func:`levelfield.metrics.evaluate`."""
    if (gallery is None) != (gallery_labels is None):
        raise UsageError("gallery and gallery_labels belong together; give both or neither")
    if distance not in {"cosine", "euclidean"}:
        raise UsageError(f'unknown distance "{distance}"; choose from cosine, euclidean')
    queries = as_source("embeddings", embeddings)
    items = queries if gallery is None else as_source("gallery", gallery)
    asked, held, classes = encode(labels, gallery_labels)
    _check_sides(queries, items, asked, held)
    check_rows("embeddings", queries, distance)
    if gallery is not None:
        check_rows("gallery", items, distance)
    device = queries.device
    asked, held = asked.to(device), held.to(device)
    frame = frame_of(items, distance)
    own = Vectors(queries, frame)
    return Inputs(
        queries=own,
        gallery=own if gallery is None else Vectors(items, frame),
        relevance=relevance(asked, held, classes, itself=gallery is None),
        space=Space.of(queries, asked, classes, distance=distance),
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
