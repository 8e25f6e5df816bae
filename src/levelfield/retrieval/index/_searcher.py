"""Image search: an image in, the most similar images out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from levelfield.core.errors import UsageError, mask_password
from levelfield.retrieval.embedders import ImageEmbedder, ImageInput, MatchThreshold, load_embedder
from levelfield.retrieval.embedders.images import as_list
from levelfield.retrieval.index._card import check_same_model
from levelfield.retrieval.index._filters import parse_filters
from levelfield.retrieval.index._local import MODEL, open_index
from levelfield.retrieval.index._reranking import Reranking, as_reranking
from levelfield.retrieval.index._store import VectorStore, is_database
from levelfield.retrieval.index._vectors import Rows

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
        metadata: Values of its other columns, such as ``date``.
    """

    name: str
    label: str
    similarity: float
    is_match: bool | None
    row: int
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchAnswer:
    """Answer to an image search.

    Attributes:
        neighbors: Most similar images, most similar first; in the order of the re-ranking if there is one.
        threshold: Match threshold; None if the model was not calibrated.
        notes: Remarks for the user, one sentence each.
        nearest: Similarity of the nearest image that meets the filters. Re-ranking, ``k`` or a minimum
            similarity may leave it out of ``neighbors``. None if no image meets the filters.
    """

    neighbors: tuple[Neighbor, ...]
    threshold: MatchThreshold | None
    notes: tuple[str, ...]
    nearest: float | None = None

    @property
    def found(self) -> bool | None:
        """True if an image that meets the filters is a match; None if the model was not calibrated."""
        if self.threshold is None:
            return None
        return self.nearest is not None and self.nearest >= self.threshold.similarity

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

    def search(
        self,
        images: ImageInput | Iterable[ImageInput],
        *,
        k: int = 20,
        filters: Sequence[str] = (),
        min_similarity: float | None = None,
        rerank: str | Reranking | None = None,
    ) -> SearchAnswer:
        """Return the ``k`` most similar images.

        Args:
            images: One image, or several images of the same object as one query.
            k: Number of neighbors. If the index holds fewer images, all are returned, with a note.
            filters: Conditions that the neighbors must meet, such as ``["label=cat", "date>=2020"]``.
            min_similarity: Neighbors below this similarity are left out.
            rerank: Order of the neighbors: "aqe", "alpha_qe", "k_reciprocal" or a :class:`Reranking`. The
                similarities stay those of the query.

        Raises:
            ImageError: An image cannot be read.
        """
        _check_count(k)
        vectors = self.embedder.embed(as_list(images))
        # The mean is not normalized: the result is then the mean similarity, to which the threshold applies.
        # Normalizing would raise the similarity of images that differ from each other.
        return self.search_vector(
            vectors.mean(0), k=k, filters=filters, min_similarity=min_similarity, rerank=rerank
        )

    def search_text(
        self,
        text: str,
        *,
        k: int = 20,
        filters: Sequence[str] = (),
        min_similarity: float | None = None,
        rerank: str | Reranking | None = None,
    ) -> SearchAnswer:
        """Return the ``k`` images that fit a text best; the model needs a text tower.

        The answer has no matches: a match threshold is calibrated with images, and texts are less similar to
        images than images are. The other arguments are those of :meth:`search`.
        """
        _check_count(k)
        return self.search_vector(
            self.embedder.embed_text(text)[0],
            k=k,
            filters=filters,
            min_similarity=min_similarity,
            rerank=rerank,
            calibrated=False,
        )

    def search_vector(
        self,
        vector: torch.Tensor,
        *,
        k: int = 20,
        filters: Sequence[str] = (),
        min_similarity: float | None = None,
        rerank: str | Reranking | None = None,
        calibrated: bool = True,
    ) -> SearchAnswer:
        """Return the ``k`` images most similar to a vector (D,): a unit vector, or the mean of several.

        ``calibrated`` is false for a vector that is not of an image, which the match threshold does not fit.
        The other arguments are those of :meth:`search`.

        Raises:
            UsageError: The vector has another size, is not finite, or is longer than a unit vector.
        """
        _check_count(k)
        if min_similarity is not None and not -1 <= min_similarity <= 1:
            raise UsageError(f"the minimum similarity is {min_similarity}; give a number from -1 to 1")
        reranking, conditions = as_reranking(rerank), parse_filters(filters)
        vector = self._check_vector(vector)
        self.store.refresh()
        size = len(self.store)
        if size == 0:
            raise UsageError("the index is empty; add images with levelfield index")
        among = self.store.select(conditions) if conditions else None
        found, nearest = self._find(vector, k, among, reranking)
        threshold = self.store.model.threshold if calibrated else None
        images = self.store.images(list(found))
        metadata = self.store.metadata(list(found))
        neighbors = []
        for image in images:
            similarity = found[image.row]
            if min_similarity is not None and similarity < min_similarity:
                continue
            matches = None if threshold is None else similarity >= threshold.similarity
            cells = metadata.get(image.row, {})
            neighbors.append(Neighbor(image.name, image.label, similarity, matches, image.row, cells))
        notes = _notes(
            size, k, threshold, among=among, reranking=reranking, below=len(images) - len(neighbors)
        )
        return SearchAnswer(tuple(neighbors), threshold, tuple(notes), nearest)

    def _find(
        self, vector: torch.Tensor, k: int, among: Rows | None, reranking: Reranking | None
    ) -> tuple[dict[int, float], float | None]:
        """Return the rows of the answer in its order with their similarities, and the largest of all rows."""
        count = k if reranking is None else 1
        rows, similarities = self.store.nearest(vector[None].numpy(), count, among=among)
        pairs = zip(rows[0].tolist(), similarities[0].tolist(), strict=True)
        found = {row: similarity for row, similarity in pairs if row >= 0}
        nearest = max(found.values(), default=None)
        if reranking is not None:
            order = reranking.order(self.store, vector, k, among=among)
            values = (self.store.vectors(order) @ vector.numpy()).tolist()
            found = dict(zip(order.tolist(), values, strict=True))
        return found, nearest

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


def _check_count(k: int) -> None:
    if k < 1:
        raise UsageError(f"k is {k}; ask for at least 1 neighbor")


def _notes(
    size: int,
    k: int,
    threshold: MatchThreshold | None,
    *,
    among: Rows | None,
    reranking: Reranking | None,
    below: int,
) -> list[str]:
    notes = []
    if among is not None:
        notes.append(f"{len(among):,} of {size:,} images meet the filters")
    elif k > size:
        notes.append(f"the index holds only {size} images, fewer than the {k} requested; all are shown")
    if below:
        notes.append(f"{below} of the nearest images are below the minimum similarity and left out")
    if reranking is not None:
        notes.append(f"ordered by {reranking.name}; similarities are those of the query")
    if threshold is not None and size > MUCH_LARGER * threshold.gallery:
        notes.append(
            f"the threshold was calibrated on {threshold.gallery:,} images; among {size:,} images, more than "
            f"{100 * threshold.false_accept_rate:g}% of queries without a match will find one"
        )
    return notes
