"""Arrays for the retrieval gallery: nearest neighbors of test queries, and vectors for a map.

They are computed from the scored embeddings when a rerun is scored, and are stored in the file of its scores.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.seeds import numpy_generator
from levelfield.data import GALLERY, QUERY, Dataset
from levelfield.records import (
    GALLERY_MAP_ROWS,
    GALLERY_MAP_VECTORS,
    GALLERY_NEIGHBORS,
    GALLERY_QUERIES,
    GALLERY_SIMILARITIES,
)

NEAREST = 8  # neighbors of each query
MOST_QUERIES = 10_000  # of more queries, this many are drawn at random
MAP_CLASSES, MAP_IMAGES = 20, 20  # classes (colors that can be told apart), and images per class
MAP_DIMENSIONS = 50  # usual input size of t-SNE
GALLERY_ARRAYS = (
    GALLERY_QUERIES,
    GALLERY_NEIGHBORS,
    GALLERY_SIMILARITIES,
    GALLERY_MAP_ROWS,
    GALLERY_MAP_VECTORS,
)


def gallery_arrays(embeddings: Tensor, test: Dataset) -> dict[str, Tensor]:
    """Return the arrays that a rerun stores for the gallery, the table of confusions and the map.

    Args:
        embeddings: Unit embeddings of the test images (n x d).
        test: The test images.
    """
    queries, gallery = _query_and_gallery_rows(test)
    random = numpy_generator("neighbours", test.fingerprint)
    if len(queries) > MOST_QUERIES:
        queries = np.sort(random.permutation(queries)[:MOST_QUERIES])
    nearest, similarity = nearest_neighbors(embeddings, queries, gallery)
    rows = choose_map_rows(test)
    return {
        GALLERY_QUERIES: torch.from_numpy(queries.astype(np.int32)),
        GALLERY_NEIGHBORS: nearest.to(torch.int32),
        GALLERY_SIMILARITIES: similarity.float(),
        GALLERY_MAP_ROWS: torch.from_numpy(rows.astype(np.int32)),
        GALLERY_MAP_VECTORS: pca_coordinates(embeddings[torch.from_numpy(rows)], MAP_DIMENSIONS),
    }


def nearest_neighbors(
    embeddings: Tensor, queries: np.ndarray, gallery: np.ndarray, *, block: int = 1024
) -> tuple[Tensor, Tensor]:
    """Return the k nearest gallery rows of each query row (q x k), and their cosine similarities (q x k).

    A query is never its own neighbor. k is 8, or the number of other rows if smaller.

    Example:
        >>> points = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> nearest_neighbors(points, np.array([0]), np.arange(3))[0].tolist()
        [[1, 2]]
    """
    points = F.normalize(embeddings.float())
    among = torch.from_numpy(gallery)
    itself = len(np.intersect1d(queries, gallery)) > 0
    count = min(NEAREST, len(gallery) - itself)
    nearest, similarity = [], []
    for rows in torch.split(torch.from_numpy(queries), block):
        cosines = points[rows] @ points[among].T
        cosines[among[None, :] == rows[:, None]] = -torch.inf
        found = cosines.topk(count, dim=1)
        nearest.append(among[found.indices])
        similarity.append(found.values)
    return torch.cat(nearest), torch.cat(similarity)


def choose_map_rows(test: Dataset) -> np.ndarray:
    """Return the rows of a map: up to 20 images of up to 20 classes, seeded by the fingerprint."""
    random = numpy_generator("map", test.fingerprint)
    used = np.flatnonzero(test.roles) if test.roles is not None else np.arange(len(test))
    classes = np.unique(test.labels[used])
    chosen = np.sort(random.permutation(classes)[:MAP_CLASSES])
    rows = [random.permutation(used[test.labels[used] == label])[:MAP_IMAGES] for label in chosen]
    return np.sort(np.concatenate(rows))


def pca_coordinates(vectors: Tensor, count: int) -> Tensor:
    """Return centered vectors (m x d) on their first ``count`` principal axes, with fixed signs."""
    centered = (vectors - vectors.mean(dim=0)).double()
    _, _, directions = torch.linalg.svd(centered, full_matrices=False)
    directions = directions[:count]
    largest = directions.abs().argmax(dim=1, keepdim=True)
    along: Tensor = centered @ (directions * directions.gather(1, largest).sign()).T
    return along.float()


def has_gallery_arrays(keys: Iterable[str]) -> bool:
    """Return True if a rerun's array names include all arrays of the gallery."""
    return set(GALLERY_ARRAYS) <= set(keys)


def _query_and_gallery_rows(test: Dataset) -> tuple[np.ndarray, np.ndarray]:
    if test.roles is None:
        rows = np.arange(len(test))
        return rows, rows
    return np.flatnonzero(test.roles & QUERY), np.flatnonzero(test.roles & GALLERY)
