"""What is kept of the test embeddings to look at: the nearest neighbours of queries, and a part for a map.

It is computed when a rerun is scored, from the embeddings that are scored, and lies beside the scores.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.data import GALLERY, QUERY, Dataset
from levelfield.records import (
    LOOK_MAP_ROWS,
    LOOK_MAP_VECTORS,
    LOOK_NEIGHBOURS,
    LOOK_QUERIES,
    LOOK_SIMILARITIES,
)
from levelfield.seeds import numpy_generator

NEAREST = 8  # neighbours of each query
MOST_QUERIES = 10_000  # of more, as many are drawn at random
MAP_CLASSES, MAP_IMAGES = 20, 20  # as many colours as can be told apart, and images of each class
MAP_DIMENSIONS = 50  # what t-SNE usually starts from
LOOK = (LOOK_QUERIES, LOOK_NEIGHBOURS, LOOK_SIMILARITIES, LOOK_MAP_ROWS, LOOK_MAP_VECTORS)


def to_look_at(embeddings: Tensor, test: Dataset) -> dict[str, Tensor]:
    """The arrays that a rerun keeps for the gallery, the table of confusions and the map.

    Args:
        embeddings: Of the test images, unit length (n x d).
        test: The test images.
    """
    asked, searched = _roles(test)
    random = numpy_generator("neighbours", test.fingerprint)
    if len(asked) > MOST_QUERIES:
        asked = np.sort(random.permutation(asked)[:MOST_QUERIES])
    nearest, similarity = nearest_neighbours(embeddings, asked, searched)
    rows = map_rows(test)
    return {
        LOOK_QUERIES: torch.from_numpy(asked.astype(np.int32)),
        LOOK_NEIGHBOURS: nearest.to(torch.int32),
        LOOK_SIMILARITIES: similarity.float(),
        LOOK_MAP_ROWS: torch.from_numpy(rows.astype(np.int32)),
        LOOK_MAP_VECTORS: main_directions(embeddings[torch.from_numpy(rows)], MAP_DIMENSIONS),
    }


def nearest_neighbours(
    embeddings: Tensor, asked: np.ndarray, searched: np.ndarray, *, block: int = 1024
) -> tuple[Tensor, Tensor]:
    """The nearest rows among ``searched`` to each row of ``asked`` (q x k), and their cosines; never itself.

    k is 8, or all others where there are fewer.

    Example:
        >>> points = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> nearest_neighbours(points, np.array([0]), np.arange(3))[0].tolist()
        [[1, 2]]
    """
    points = F.normalize(embeddings.float())
    among = torch.from_numpy(searched)
    itself = len(np.intersect1d(asked, searched)) > 0
    count = min(NEAREST, len(searched) - itself)
    nearest, similarity = [], []
    for rows in torch.split(torch.from_numpy(asked), block):
        cosines = points[rows] @ points[among].T
        cosines[among[None, :] == rows[:, None]] = -torch.inf
        found = cosines.topk(count, dim=1)
        nearest.append(among[found.indices])
        similarity.append(found.values)
    return torch.cat(nearest), torch.cat(similarity)


def map_rows(test: Dataset) -> np.ndarray:
    """Which images a map shows: up to 20 of each of up to 20 classes, drawn by the set's hash."""
    random = numpy_generator("map", test.fingerprint)
    used = np.flatnonzero(test.roles) if test.roles is not None else np.arange(len(test))
    classes = np.unique(test.labels[used])
    chosen = np.sort(random.permutation(classes)[:MAP_CLASSES])
    rows = [random.permutation(used[test.labels[used] == label])[:MAP_IMAGES] for label in chosen]
    return np.sort(np.concatenate(rows))


def main_directions(vectors: Tensor, count: int) -> Tensor:
    """Centred vectors (m x d) along their ``count`` main directions, each with a definite sign."""
    centred = (vectors - vectors.mean(dim=0)).double()
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    directions = directions[:count]
    largest = directions.abs().argmax(dim=1, keepdim=True)
    along: Tensor = centred @ (directions * directions.gather(1, largest).sign()).T
    return along.float()


def has_all(keys: Iterable[str]) -> bool:
    """Whether a rerun's arrays hold what there is to look at."""
    return set(LOOK) <= set(keys)


def _roles(test: Dataset) -> tuple[np.ndarray, np.ndarray]:
    if test.roles is None:
        rows = np.arange(len(test))
        return rows, rows
    return np.flatnonzero(test.roles & QUERY), np.flatnonzero(test.roles & GALLERY)
