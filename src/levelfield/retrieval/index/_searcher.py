"""Image search: an image in, the most similar images out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from levelfield.core.errors import UsageError, mask_password
from levelfield.retrieval.embedders import ImageEmbedder, ImageInput, MatchThreshold, load_embedder
from levelfield.retrieval.embedders.images import as_list
from levelfield.retrieval.index._card import check_same_model
from levelfield.retrieval.index._local import MODEL, open_index
from levelfield.retrieval.index._store import VectorStore, is_database

LONGEST = 1.001  # length of a unit vector, with rounding
MUCH_LARGER = 2  # the answer has a note if the index is this many times as large as the calibration gallery


@dataclass(frozen=True)
class Neighbor:
    """Similar image.

    Attributes:
        name: Path of the image, or ``dataset:row``.
        label: Class; empty if it has none.
        similarity: Cosine similarity; 1 for identical vectors. For a query of several images, the mean.
        is_match: True if the similarity reaches the match threshold; None if the model has no threshold.
        row: Row in the index.
    """

    name: str
    label: str
    similarity: float
    is_match: bool | None
    row: int


@dataclass(frozen=True)
class SearchAnswer:
    """Answer to an image search.

    Attributes:
        neighbors: Most similar images, most similar first.
        threshold: Match threshold; None if the model was not calibrated.
        notes: Remarks for the user, one sentence each.
    """

    neighbors: tuple[Neighbor, ...]
    threshold: MatchThreshold | None
    notes: tuple[str, ...]

    @property
    def found(self) -> bool | None:
        """True if the index holds a match; None if the model was not calibrated."""
        if self.threshold is None:
            return None
        return any(neighbor.is_match for neighbor in self.neighbors)

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as a dict for JSON."""
        return {
            "neighbors": [vars(neighbor) for neighbor in self.neighbors],
            "found": self.found,
            "threshold": None if self.threshold is None else self.threshold.model_dump(),
            "notes": list(self.notes),
        }


class Searcher:
    """Image search in an index.

    Args:
        index: Index directory, or the address of an index in a database (``postgresql://...``).
        model: Model directory. Needed only for a database; an index directory has its own copy.
        trust: Run the code of any trunk that the index's model names; see :func:`levelfield.load_embedder`.

    Attributes:
        store: Index.
        embedder: Model.
    """

    def __init__(self, index: str | Path, *, model: str | Path | None = None, trust: bool = False) -> None:
        self.store: VectorStore
        if is_database(index):
            from levelfield.retrieval.index.postgres import PostgresIndex

            if model is None:
                raise UsageError("an index in a database has no copy of the model; give it with --model")
            self.store = PostgresIndex(str(index))
        else:
            self.store = open_index(index)
            model = model or Path(index) / MODEL
        self.embedder: ImageEmbedder = load_embedder(model, trust=trust)
        check_same_model(self.store.model, self.embedder.card, mask_password(str(index)))

    def search(self, images: ImageInput | Iterable[ImageInput], *, k: int = 20) -> SearchAnswer:
        """Return the ``k`` most similar images.

        Args:
            images: One image, or several images of the same object as one query.
            k: Number of neighbors. If the index holds fewer images, all are returned, with a note.

        Raises:
            ImageError: An image cannot be read.
        """
        if k < 1:
            raise UsageError(f"k is {k}; ask for at least 1 neighbor")
        vectors = self.embedder.embed(as_list(images))
        # The mean is not normalized: the result is then the mean similarity, to which the threshold applies.
        # Normalizing would raise the similarity of images that differ from each other.
        return self.search_vector(vectors.mean(0), k=k)

    def search_vector(self, vector: torch.Tensor, *, k: int = 20) -> SearchAnswer:
        """Return the ``k`` images most similar to a vector (D,): a unit vector, or the mean of several.

        Raises:
            UsageError: The vector has another size, is not finite, or is longer than a unit vector.
        """
        if k < 1:
            raise UsageError(f"k is {k}; ask for at least 1 neighbor")
        vector = self._check_vector(vector)
        self.store.refresh()
        size = len(self.store)
        if size == 0:
            raise UsageError("the index is empty; add images with levelfield index")
        rows, similarities = self.store.nearest(vector[None].numpy(), k)
        found = dict(zip(rows[0].tolist(), similarities[0].tolist(), strict=True))
        threshold = self.store.model.threshold
        neighbors = []
        for image in self.store.images([row for row in found if row >= 0]):
            similarity = found[image.row]
            matches = None if threshold is None else similarity >= threshold.similarity
            neighbors.append(Neighbor(image.name, image.label, similarity, matches, image.row))
        return SearchAnswer(tuple(neighbors), threshold, tuple(_notes(size, k, threshold)))

    def _check_vector(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the vector as float32 on the CPU; raise UsageError if similarities would mean nothing."""
        found = torch.as_tensor(vector).detach().cpu().float()
        size = self.store.model.size
        if found.shape != (size,):
            raise UsageError(
                f"the vector has shape {tuple(found.shape)}, the index holds vectors of size {size}; give "
                "one vector of its model"
            )
        if not found.isfinite().all():
            raise UsageError("the vector has values that are not finite; embed the image again")
        length = float(found.norm())
        if not 1e-6 < length <= LONGEST:
            raise UsageError(
                f"the vector has length {length:.4g}; give a unit vector, or the mean of several, so that "
                "similarities are cosines"
            )
        return found


def _notes(size: int, k: int, threshold: MatchThreshold | None) -> list[str]:
    notes = []
    if k > size:
        notes.append(f"the index holds only {size} images, fewer than the {k} requested; all are shown")
    if threshold is not None and size > MUCH_LARGER * threshold.gallery:
        notes.append(
            f"the threshold was calibrated on {threshold.gallery:,} images; among {size:,} images, more than "
            f"{threshold.false_accept_rate:.0%} of queries without a match will find one"
        )
    return notes
