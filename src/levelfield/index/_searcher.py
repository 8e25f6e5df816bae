"""The search box: a picture in, the most similar pictures out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from levelfield.embedders import Picture, PictureEmbedder, Threshold, load_embedder
from levelfield.embedders.pictures import as_list
from levelfield.errors import UsageError
from levelfield.index._card import check_same_model
from levelfield.index._local import MODEL, open_index
from levelfield.index._store import VectorStore

MUCH_LARGER = 2  # an index this many times as large as the calibration's gallery gets a note


@dataclass(frozen=True)
class Neighbour:
    """One answer.

    Attributes:
        name: The picture's path, or ``dataset:row``.
        label: Its class; empty if it has none.
        similarity: The cosine of the two vectors, 1 is the same; the mean cosine if the query is several
            pictures.
        is_match: Whether the similarity reaches the threshold; None if the model has none.
        row: Its number in the index.
    """

    name: str
    label: str
    similarity: float
    is_match: bool | None
    row: int


@dataclass(frozen=True)
class Answer:
    """What a search gives.

    Attributes:
        neighbours: The most similar pictures, most similar first.
        threshold: When something counts as a match; None if the model was not calibrated.
        notes: What one should know, one sentence each.
    """

    neighbours: tuple[Neighbour, ...]
    threshold: Threshold | None
    notes: tuple[str, ...]

    @property
    def found(self) -> bool | None:
        """Whether there is anything like it here; None if the model was not calibrated."""
        if self.threshold is None:
            return None
        return any(neighbour.is_match for neighbour in self.neighbours)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "neighbours": [vars(neighbour) for neighbour in self.neighbours],
            "found": self.found,
            "threshold": None if self.threshold is None else self.threshold.model_dump(),
            "notes": list(self.notes),
        }


class Searcher:
    """Searches an index with pictures.

    Args:
        index: The folder of an index, or the address of one in a database (``postgresql://...``).
        model: The model folder; an index in a folder has its own copy.

    Attributes:
        store: The index.
        embedder: The model.
    """

    def __init__(self, index: str | Path, *, model: str | Path | None = None) -> None:
        self.store: VectorStore
        if str(index).startswith(("postgresql://", "postgres://")):
            from levelfield.index.postgres import PostgresIndex

            if model is None:
                raise UsageError("an index in a database has no copy of the model; name it with --model")
            self.store = PostgresIndex(str(index))
        else:
            self.store = open_index(index)
            model = model or Path(index) / MODEL
        self.embedder: PictureEmbedder = load_embedder(model)
        check_same_model(self.store.model, self.embedder.card, str(index))

    def search(self, pictures: Picture | Iterable[Picture], *, k: int = 20) -> Answer:
        """The ``k`` most similar pictures.

        Args:
            pictures: One picture, or several of the same object, which are one query together.
            k: How many; all, with a note, if the index holds fewer.

        Raises:
            ImageError: A picture cannot be read.
        """
        if k < 1:
            raise UsageError(f"k is {k}; ask for at least 1 neighbour")
        vectors = self.embedder.embed(as_list(pictures))
        # Not brought to unit length: what is found is then as similar as the pictures' mean similarity,
        # to which the threshold applies. Pictures that differ must not reach it together for being different.
        return self.search_vector(vectors.mean(0), k=k)

    def search_vector(self, vector: torch.Tensor, *, k: int = 20) -> Answer:
        """The ``k`` pictures most similar to a vector (D,): a unit vector, or the mean of several."""
        self.store.refresh()
        held = len(self.store)
        if held == 0:
            raise UsageError("the index is empty; add pictures with levelfield index")
        rows, similarities = self.store.nearest(vector[None].float().numpy(), k)
        found = dict(zip(rows[0].tolist(), similarities[0].tolist(), strict=True))
        threshold = self.store.model.threshold
        neighbours = []
        for item in self.store.items([row for row in found if row >= 0]):
            similarity = found[item.row]
            matches = None if threshold is None else similarity >= threshold.similarity
            neighbours.append(Neighbour(item.name, item.label, similarity, matches, item.row))
        return Answer(tuple(neighbours), threshold, tuple(_notes(held, k, threshold)))


def _notes(held: int, k: int, threshold: Threshold | None) -> list[str]:
    notes = []
    if k > held:
        notes.append(f"the index holds only {held} pictures, fewer than the {k} asked for; these are all")
    if threshold is not None and held > MUCH_LARGER * threshold.gallery:
        notes.append(
            f"the threshold was calibrated among {threshold.gallery:,} pictures; among {held:,} more than "
            f"{threshold.false_accept_rate:.0%} of queries without a match will find one"
        )
    return notes
