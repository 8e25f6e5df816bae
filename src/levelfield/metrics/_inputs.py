"""Checked inputs of ``evaluate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.metrics._relevance import Relevance, build_relevance, encode_labels
from levelfield.metrics._vectors import Distance, NormalizedVectors, as_matrix, check_rows, fit_normalizer
from levelfield.metrics.structure import EmbeddingSpace


@dataclass(frozen=True)
class EvaluationInputs:
    """Queries, gallery, their relevance, and the queries as an embedding space."""

    queries: NormalizedVectors
    gallery: NormalizedVectors
    relevance: Relevance
    space: EmbeddingSpace


def check_inputs(
    embeddings: Any, labels: Any, gallery: Any, gallery_labels: Any, *, distance: Distance
) -> EvaluationInputs:
    """Return the arguments of :func:`levelfield.metrics.evaluate`; raise UsageError if they are not valid."""
    if (gallery is None) != (gallery_labels is None):
        raise UsageError("gallery and gallery_labels belong together; give both or neither")
    if distance not in {"cosine", "euclidean"}:
        raise UsageError(f'unknown distance "{distance}"; choose from cosine, euclidean')
    queries = as_matrix("embeddings", embeddings)
    items = queries if gallery is None else as_matrix("gallery", gallery)
    asked, held, classes = encode_labels(labels, gallery_labels)
    _check_sides(queries, items, asked, held)
    check_rows("embeddings", queries, distance)
    if gallery is not None:
        check_rows("gallery", items, distance)
    device = queries.device
    asked, held = asked.to(device), held.to(device)
    normalizer = fit_normalizer(items, distance)
    own = NormalizedVectors(queries, normalizer)
    return EvaluationInputs(
        queries=own,
        gallery=own if gallery is None else NormalizedVectors(items, normalizer),
        relevance=build_relevance(asked, held, classes, exclude_self=gallery is None),
        space=EmbeddingSpace.of(queries, asked, classes, distance=distance),
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
