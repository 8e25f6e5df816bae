"""Retrieval gallery of a comparison of models: queries with their nearest images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.analysis import ModelComparison, choose_queries
from levelfield.api._model_sources import Source
from levelfield.api._same_items import Items
from levelfield.core.errors import RunError, UsageError
from levelfield.metrics.files import EmbeddingFile
from levelfield.reports import EvaluationGallery

QUERIES, NEIGHBORS, SIDE = 18, 8, 96
BLOCK = 20_000  # gallery rows that are compared at once


@dataclass(frozen=True)
class GalleryInput:
    """Everything that a retrieval gallery is made of.

    Attributes:
        queries: Embeddings of the first seed of each model.
        galleries: The same for the searched items; empty if the queries are searched.
        items: Items of the queries, in the order of ``images``.
        gallery_items: Items that are searched; None if the queries are searched.
        images: Image file of each item: the queries, then the searched items if there are others.
        distance: "cosine" or "euclidean".
        relevant: Relevant rows of each query among the searched items; None if classes decide.
        ignored: Ignored rows of each query; None without any.
    """

    queries: Mapping[str, Source]
    galleries: Mapping[str, Source]
    items: Items
    gallery_items: Items | None
    images: Sequence[Path]
    distance: str
    relevant: Sequence[Any] | None = None
    ignored: Sequence[Any] | None = None


def build_gallery(comparison: ModelComparison, given: GalleryInput) -> EvaluationGallery:
    """Choose queries, find their nearest items for each model, and encode thumbnails.

    Raises:
        UsageError: The number of images is not the number of items.
    """
    info = comparison.metric_info
    scores = {
        name: info.sign * own.mean_per_query(info.name)
        for name, own in comparison.models.items()
        if info.name in own.per_query
    }
    count = len(next(iter(scores.values()))) if scores else len(given.images)
    queries = choose_queries(scores, np.arange(count), count=QUERIES, name="evaluate")
    rows = np.array([query.row for query in queries], dtype=np.int64)
    neighbors: dict[str, dict[int, list[tuple[int, float]]]] = {}
    labels: list[str] = []
    offset = 0 if given.gallery_items is None else len(given.items.labels)
    for name in comparison.means:
        asked, _ = given.items.align(given.queries[name].load(), name)
        held = None
        if given.gallery_items is not None:
            held, _ = given.gallery_items.align(given.galleries[name].load(), name)
        items, similarities = nearest_rows(asked, held, rows, distance=given.distance)
        neighbors[name] = {
            int(row): [(int(item) + offset, round(float(s), 3)) for item, s in zip(line, near, strict=True)]
            for row, line, near in zip(rows, items, similarities, strict=True)
        }
        if not labels:
            labels = [*_text(asked), *([] if held is None else _text(held))]
    if len(given.images) != len(labels):
        raise UsageError(f"there are {len(given.images)} images for {len(labels)} items; give one per item")
    shown = {
        *rows.tolist(),
        *(row for found in neighbors.values() for line in found.values() for row, _ in line),
    }
    return EvaluationGallery(
        queries=queries,
        neighbors=neighbors,
        labels=labels,
        images=_thumbnails(given.images, sorted(shown)),
        relevant=_listed(given.relevant, rows, offset),
        ignored=_listed(given.ignored, rows, offset) or {},
    )


def _listed(lists: Sequence[Any] | None, rows: Any, offset: int) -> dict[int, list[int]] | None:
    """Return the listed items of queries ``rows``, counted as the images are."""
    if lists is None:
        return None
    return {int(row): [int(item) + offset for item in lists[int(row)]] for row in rows}


def nearest_rows(
    asked: EmbeddingFile, held: EmbeddingFile | None, rows: Any, *, distance: str
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the nearest items of queries ``rows`` (q) and their similarities, both q x k, nearest first.

    Similarities are cosines, or distances with a minus sign.

    Example:
        >>> points = EmbeddingFile(np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]]), None)
        >>> nearest_rows(points, None, np.array([0]), distance="cosine")[0].tolist()
        [[2, 1]]
    """
    vectors = _vectors(asked.embeddings, rows, distance)
    items = asked.embeddings if held is None else held.embeddings
    parts = []
    for start in range(0, len(items), BLOCK):
        block = _vectors(items, np.arange(start, min(start + BLOCK, len(items))), distance)
        if distance == "euclidean":
            squares = (vectors**2).sum(1)[:, None] + (block**2).sum(1) - 2 * vectors @ block.T
            parts.append(-np.sqrt(np.maximum(squares, 0.0)))
        else:
            parts.append(vectors @ block.T)
    similarities = np.concatenate(parts, axis=1)
    if held is None:
        similarities[np.arange(len(rows)), rows] = -np.inf
    count = min(NEIGHBORS, len(items) - int(held is None))
    order = np.argsort(-similarities, axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(similarities, order, axis=1)


def _vectors(embeddings: Any, rows: Any, distance: str) -> np.ndarray[Any, Any]:
    chosen = embeddings[rows]
    found = np.asarray(chosen.detach().cpu() if hasattr(chosen, "detach") else chosen, dtype=np.float64)
    return found / np.linalg.norm(found, axis=1, keepdims=True) if distance == "cosine" else found


def _text(found: EmbeddingFile) -> list[str]:
    return [] if found.labels is None else [str(label) for label in found.labels]


def _thumbnails(images: Sequence[Path], rows: Sequence[int]) -> dict[int, bytes]:
    """Return WebP thumbnails by row; images that cannot be read are left out."""
    from levelfield.data import read_image
    from levelfield.data.thumbnails import encode_thumbnail

    found = {}
    for row in rows:
        try:
            found[row] = encode_thumbnail(read_image(images[row]), side=SIDE)
        except (RunError, UsageError, OSError):
            continue
    return found
