"""Check that all models embedded the same items, in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.metrics.files import EmbeddingFile


@dataclass(frozen=True, eq=False)
class Items:
    """The items that all models must have embedded, taken from the first model that can be read."""

    source: str
    labels: np.ndarray[Any, Any]
    ids: np.ndarray[Any, Any] | None

    @classmethod
    def of(cls, found: EmbeddingFile, name: str) -> Items:
        """Return the items of the first model."""
        labels = _labels(found, name)
        return cls(name, labels, None if found.ids is None else _distinct(found.ids, name, len(labels)))

    def align(self, found: EmbeddingFile, name: str) -> tuple[EmbeddingFile, bool]:
        """Return the embeddings in the order of these items, and True if their order was another one.

        Raises:
            UsageError: They are not of the same items.
        """
        labels = _labels(found, name)
        if len(labels) != len(self.labels):
            raise UsageError(
                f"{name} has {len(labels)} rows, {self.source} has {len(self.labels)}; embed the same items"
            )
        moved = False
        if self.ids is not None and found.ids is not None:
            ids = _distinct(found.ids, name, len(labels))
            if not np.array_equal(ids, self.ids):
                order = self._order(ids, name)
                embeddings = found.embeddings[order]
                found, labels, moved = EmbeddingFile(embeddings, labels[order], self.ids), labels[order], True
        own, known = as_text(labels), as_text(self.labels)
        differs = np.flatnonzero(own != known)
        if len(differs):
            row = int(differs[0])
            same = np.array_equal(np.sort(own), np.sort(known))
            remedy = (
                'save the rows in one order, or save "ids" in all files'
                if same
                else "embed the same items, in the same order"
            )
            raise UsageError(
                f"{name} and {self.source} disagree on the label of row {row} "
                f"({labels[row]}, {self.labels[row]}); {remedy}"
            )
        return found, moved

    def _order(self, own: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
        assert self.ids is not None
        at = {item: row for row, item in enumerate(own.tolist())}
        missing = next((item for item in self.ids.tolist() if item not in at), None)
        if missing is not None:
            raise UsageError(f'{name} has no item "{missing}", {self.source} has one; embed the same items')
        return np.array([at[item] for item in self.ids.tolist()])


def _labels(found: EmbeddingFile, name: str) -> np.ndarray[Any, Any]:
    if getattr(found.embeddings, "ndim", 0) != 2:
        raise UsageError(f"{name} holds no table of numbers; save embeddings with one row per item")
    if found.labels is None:
        raise UsageError(f"{name} holds no labels; save them in the file, or give labels for all models")
    if found.labels.ndim != 1 or len(found.labels) != len(found.embeddings):
        raise UsageError(
            f"{name} has {len(found.embeddings)} rows but labels of shape {found.labels.shape}; "
            "give one label per row"
        )
    return found.labels


def _distinct(ids: np.ndarray[Any, Any], name: str, rows: int) -> np.ndarray[Any, Any]:
    if ids.ndim != 1 or len(ids) != rows:
        raise UsageError(f"{name} has {rows} rows but ids of shape {ids.shape}; give one id per row")
    text = as_text(ids)
    names, counts = np.unique(text, return_counts=True)
    if len(names) < len(text):
        raise UsageError(f'{name} holds the id "{names[counts > 1][0]}" twice; remove the duplicate')
    return text


def as_text(labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return labels as strings, so that 3, 3.0 and "3" are the same label in files of different kinds.

    Example:
        >>> as_text(np.array([3.0, 4.0])).tolist(), as_text(np.array([b"a"])).tolist()
        (['3', '4'], ['a'])
    """
    if labels.dtype.kind == "S":
        decoded: np.ndarray[Any, Any] = np.char.decode(labels, "utf-8", "backslashreplace")
        return decoded
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and np.array_equal(labels, np.round(labels)):
        labels = labels.astype(np.int64)
    return labels.astype(str)


def count_duplicates(embeddings: Any) -> int:
    """Return the number of rows that repeat an earlier row exactly.

    Example:
        >>> count_duplicates(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
        1
    """
    if not isinstance(embeddings, np.ndarray):
        return 0
    seen: set[int] = set()
    for row in embeddings:
        seen.add(hash(row.tobytes()))
    return len(embeddings) - len(seen)
