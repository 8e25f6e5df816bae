"""What every place that keeps vectors can do, be it a folder or a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from levelfield.embedders import ModelCard
from levelfield.index._catalog import Item, NewItem
from levelfield.index._vectors import Floats, Rows

Progress = Callable[[int, int], None]


class VectorStore(Protocol):
    """Vectors of pictures, their names and labels; rows are numbers that never change their meaning."""

    @property
    def model(self) -> ModelCard:
        """The model that all vectors are of."""
        ...

    def __len__(self) -> int:
        """How many pictures there are."""
        ...

    def known(self, contents: Sequence[bytes]) -> dict[bytes, Item]:
        """The pictures that have these contents."""
        ...

    def add(self, items: Sequence[NewItem], vectors: Floats) -> None:
        """Add pictures with their vectors (n x D), all or none of them, and for good."""
        ...

    def rename(self, row: int, *, name: str, label: str) -> None:
        """Give a picture that moved its new name."""
        ...

    def outdated(self, seen: Sequence[tuple[str, bytes]]) -> list[int]:
        """The rows that are in under one of these names with another content than the one seen there."""
        ...

    def discard(self, rows: Sequence[int]) -> None:
        """Remove these rows."""
        ...

    def refresh(self) -> None:
        """Take note of what another process has added or removed."""
        ...

    def remove(self, name: str) -> int:
        """Remove the picture called ``name``, or all in the folder of that name; how many these were."""
        ...

    def nearest(self, queries: Floats, count: int) -> tuple[Rows, Floats]:
        """The most similar rows of each query (unit vectors, Q x D) and their similarities, both Q x k."""
        ...

    def items(self, rows: Sequence[int]) -> list[Item]:
        """The pictures of these rows, in this order, without those that were removed."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
