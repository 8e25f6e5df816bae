"""Checked inputs of ``evaluate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.metrics._query_lists import read_lists
from levelfield.metrics._relevance import Relevance, build_relevance, encode_labels, list_relevance
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
    embeddings: Any,
    labels: Any,
    gallery: Any,
    gallery_labels: Any,
    *,
    distance: Distance,
    relevant: Any = None,
    ignore: Any = None,
) -> EvaluationInputs:
    """Return the arguments of :func:`levelfield.metrics.evaluate`; raise UsageError if they are not valid."""
    if labels is None and relevant is None:
        raise UsageError("there are neither labels nor relevant items; give labels, or lists with relevant")
    if relevant is None and (gallery is None) != (gallery_labels is None):
        raise UsageError("gallery and gallery_labels belong together; give both or neither")
    if relevant is not None and gallery_labels is not None:
        raise UsageError("relevant and gallery_labels both say what is relevant; give one of them")
    if distance not in {"cosine", "euclidean"}:
        raise UsageError(f'unknown distance "{distance}"; choose from cosine, euclidean')
    queries = as_matrix("embeddings", embeddings)
    items = queries if gallery is None else as_matrix("gallery", gallery)
    asked, held, classes = encode_labels(
        np.zeros(len(queries), dtype=np.int64) if labels is None else labels, gallery_labels
    )
    _check_sides(queries, items, asked, held, lists=relevant is not None)
    check_rows("embeddings", queries, distance)
    if gallery is not None:
        check_rows("gallery", items, distance)
    device = queries.device
    asked, held = asked.to(device), held.to(device)
    lists = {
        name: None if given is None else read_lists(name, given, queries=len(queries), items=len(items))
        for name, given in (("relevant", relevant), ("ignore", ignore))
    }
    listed, ignored = (None if each is None else each.to(device) for each in lists.values())
    alone = gallery is None
    normalizer = fit_normalizer(items, distance)
    own = NormalizedVectors(queries, normalizer)
    return EvaluationInputs(
        queries=own,
        gallery=own if alone else NormalizedVectors(items, normalizer),
        relevance=build_relevance(asked, held, classes, exclude_self=alone, ignored=ignored)
        if listed is None
        else list_relevance(listed, ignored, exclude_self=alone),
        space=EmbeddingSpace.of(queries, asked, classes, distance=distance),
    )


def _check_sides(queries: Tensor, items: Tensor, asked: Tensor, held: Tensor, *, lists: bool) -> None:
    if len(queries) != len(asked):
        raise UsageError(f"embeddings has {len(queries)} rows but labels has {len(asked)}; they must match")
    if len(items) != len(held) and not lists:
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
