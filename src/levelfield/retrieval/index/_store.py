"""Interface of index storage: a directory or a database."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from levelfield.core.errors import UsageError
from levelfield.retrieval.embedders import ModelCard
from levelfield.retrieval.index._catalog import IndexedImage, NewImage
from levelfield.retrieval.index._filters import Condition
from levelfield.retrieval.index._vectors import Floats, Rows

Progress = Callable[[int, int], None]


def is_database(index: str | Path) -> bool:
    """Return True if ``index`` is the address of a PostgreSQL database, not a directory.

    Raises:
        UsageError: It is another address. A directory of that name would contain its password.

    Example:
        >>> is_database("postgresql://me@host/images"), is_database("index/")
        (True, False)
    """
    address = re.match(r"\s*([A-Za-z][\w+.-]+):/{1,2}", str(index))
    if address is None:
        return False
    if str(index).startswith(("postgresql://", "postgres://")):
        return True
    raise UsageError(
        f"{index} is an address that no index can have; write postgresql://USER@HOST:PORT/DATABASE, or a "
        "directory"
    )


class VectorStore(Protocol):
    """Storage of image vectors, names and labels. A row number always refers to the same image."""

    @property
    def model(self) -> ModelCard:
        """Card of the model that computed all vectors."""
        ...

    def __len__(self) -> int:
        """Return the number of images."""
        ...

    def find_by_content(self, contents: Sequence[bytes]) -> dict[bytes, IndexedImage]:
        """Return the images with these content hashes."""
        ...

    def add(self, images: Sequence[NewImage], vectors: Floats) -> None:
        """Add images with their vectors (n x D) in one durable transaction."""
        ...

    def rename(self, row: int, *, name: str, label: str) -> None:
        """Set the name and label of an image whose file moved."""
        ...

    def outdated_rows(self, seen: Sequence[tuple[str, bytes]]) -> list[int]:
        """Return the rows with one of these names but another content hash."""
        ...

    def remove_rows(self, rows: Sequence[int]) -> None:
        """Remove these rows."""
        ...

    def refresh(self) -> None:
        """Load changes by other processes."""
        ...

    def remove(self, name: str) -> int:
        """Remove the image called ``name``, or all images in the folder ``name``; return their number."""
        ...

    def nearest(self, queries: Floats, count: int, *, among: Rows | None = None) -> tuple[Rows, Floats]:
        """Return the rows most similar to each query (unit vectors, Q x D) and their similarities, Q x k.

        ``among`` limits the search to these rows, in ascending order.
        """
        ...

    def vectors(self, rows: Rows) -> Floats:
        """Return the vectors of these rows (n x D)."""
        ...

    def columns(self) -> list[str]:
        """Return the names of the metadata columns."""
        ...

    def root(self) -> str:
        """Return the folder that holds all images; empty if they are not files or share none."""
        ...

    def select(self, conditions: Sequence[Condition]) -> Rows:
        """Return the rows that meet all conditions, in ascending order."""
        ...

    def metadata(self, rows: Sequence[int]) -> dict[int, dict[str, str]]:
        """Return the metadata of these rows."""
        ...

    def set_metadata(self, values: Mapping[int, Mapping[str, str]]) -> None:
        """Set values of columns by row; other columns of these rows are kept."""
        ...

    def find_by_name(self, names: Sequence[str]) -> dict[str, int]:
        """Return the rows of the images with these names."""
        ...

    def images_without(self, column: str, *, after: int, count: int) -> list[IndexedImage]:
        """Return the first ``count`` images with a row above ``after`` that have no value in a column."""
        ...

    def images(self, rows: Sequence[int]) -> list[IndexedImage]:
        """Return the images of these rows, in this order, without removed ones."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...
