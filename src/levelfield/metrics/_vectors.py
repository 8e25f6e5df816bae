"""Embeddings on a common scale, in two precisions: float32 to search fast, float64 to decide.

Cosine distance orders items as Euclidean distance between unit vectors does, so both distances are
Euclidean here: rows are either scaled to unit length, or centred and divided by the gallery's radius.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from levelfield.errors import UsageError

Distance: TypeAlias = Literal["cosine", "euclidean"]

PIECE = 8192  # rows that are converted at a time
CACHE_BYTES = (
    1 << 30
)  # a prepared gallery up to this size is kept, a larger one is prepared anew for each block


def as_source(name: str, embeddings: Any) -> Tensor:
    """``embeddings`` as a tensor (N, D) of real numbers that shares the caller's memory (or mapped file)."""
    if isinstance(embeddings, Tensor):
        source = embeddings.detach()
    else:
        array = np.asanyarray(embeddings)
        if array.dtype.kind not in "fiub":
            raise UsageError(f"{name} is of type {array.dtype}; give real numbers, shape (N, D)")
        with warnings.catch_warnings():  # a read-only mapped file is fine: it is never written to
            warnings.simplefilter("ignore", UserWarning)
            source = torch.from_numpy(
                array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
            )
    if source.ndim != 2:
        raise UsageError(f"{name} has shape {tuple(source.shape)}; give one row per sample, shape (N, D)")
    if source.is_complex():
        raise UsageError(f"{name} is of type {source.dtype}; give real numbers")
    if 0 in source.shape:
        raise UsageError(
            f"{name} is empty (shape {tuple(source.shape)}); give at least one row and one column"
        )
    return source


@dataclass(frozen=True)
class Frame:
    """The common scale of both sides: unit rows (cosine), or a centre (D,) and a radius (Euclidean)."""

    distance: Distance
    centre: Tensor | None = None
    radius: float = 1.0

    def apply(self, rows: Tensor) -> Tensor:
        """Raw rows (n, D) as float64 rows in this frame."""
        rows = rows.double()
        if self.centre is not None:
            return (rows - self.centre) / self.radius
        rows = rows / rows.abs().amax(1, keepdim=True)  # so that squaring neither overflows nor vanishes
        return rows / length(rows)


def length(rows: Tensor) -> Tensor:
    """The length of each row (n, D), as (n, 1)."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return lengths


def check_rows(name: str, source: Tensor, distance: Distance) -> None:
    """Refuse NaN, infinity and, under cosine, rows of zeros; in pieces, so a mapped file stays on disk."""
    for start in range(0, len(source), PIECE):
        piece = source[start : start + PIECE]
        if not bool(piece.isfinite().all()):
            row = start + int((~piece.isfinite().all(1)).nonzero()[0])
            raise UsageError(f"{name} row {row} holds NaN or infinity; remove such rows, or mend the model")
        zero = (piece == 0).all(1)
        if distance == "cosine" and bool(zero.any()):
            row = start + int(zero.nonzero()[0])
            raise UsageError(
                f"{name} row {row} is all zeros: no direction; remove it or use euclidean distance"
            )


def frame_of(gallery: Tensor, distance: Distance) -> Frame:
    """The frame in which distances to ``gallery`` (M, D) are measured."""
    if distance == "cosine":
        return Frame("cosine")
    pieces = [slice(start, start + PIECE) for start in range(0, len(gallery), PIECE)]
    sums = torch.stack([(gallery[piece].double() / len(gallery)).sum(0) for piece in pieces])
    centred = Frame("euclidean", sums.sum(0))
    unit = max(float(centred.apply(gallery[piece]).abs().max()) for piece in pieces) or 1.0
    radius = max(float(length(centred.apply(gallery[piece]) / unit).max()) for piece in pieces) or 1.0
    return Frame("euclidean", centred.centre, unit * radius)


class Vectors:
    """Rows of one side, queries or gallery, in a :class:`Frame`."""

    def __init__(self, source: Tensor, frame: Frame) -> None:
        self.source = source
        self.frame = frame
        self._kept: Tensor | None = None

    def __len__(self) -> int:
        return len(self.source)

    def exact(self, rows: Tensor | slice) -> Tensor:
        """float64 (n, D)."""
        return self.frame.apply(self.source[rows])

    def keep(self) -> None:
        """Prepare the whole gallery once, if it is of moderate size."""
        width = self.source.shape[1] + int(self.frame.distance == "euclidean")
        if self._kept is not None or len(self) * width * 4 > CACHE_BYTES:
            return
        kept = torch.empty(len(self), width, device=self.source.device)
        for start in range(0, len(self), PIECE):
            kept[start : start + PIECE] = self._items(slice(start, start + PIECE))
        self._kept = kept

    def items(self, start: int, stop: int) -> Tensor:
        """Gallery rows for the fast search, float32: a query times these orders items, nearest largest."""
        return self._items(slice(start, stop)) if self._kept is None else self._kept[start:stop]

    def queries(self, rows: Tensor) -> Tensor:
        """Query rows for the fast search, float32, of length 1.

        Under Euclidean distance, as |q - g|^2 = |q|^2 - 2 (q.g - |g|^2 / 2), a last 1 meets -|g|^2 / 2.
        """
        if self.frame.distance == "cosine":
            return self._items(rows) if self._kept is None else self._kept[rows]
        exact = self.exact(rows)
        exact = torch.cat([exact, torch.ones_like(exact[:, :1])], 1)
        return (exact / length(exact)).float()

    def _items(self, rows: Tensor | slice) -> Tensor:
        if self.frame.distance == "euclidean":
            exact = self.exact(rows)
            return torch.cat([exact, -0.5 * exact.square().sum(1, keepdim=True)], 1).float()
        given = self.source[rows]
        if given.dtype == torch.float32:  # the common case, without a detour over float64
            lengths: Tensor = torch.linalg.vector_norm(given, dim=1, keepdim=True, dtype=torch.float64)
            if float(lengths.min()) > 1e-15 and float(lengths.max()) < 1e15:
                return given / lengths.float()
        return self.frame.apply(given).float()


def row_blocks(rows: Tensor, height: int) -> Iterator[Tensor]:
    """``rows`` (N,) or (N, D) in blocks of at most ``height``."""
    for start in range(0, len(rows), height):
        yield rows[start : start + height]


def rounding(dimensions: int) -> float:
    """How far a float32 product of :meth:`Vectors.queries` and :meth:`Vectors.items` can be off.

    The classical bound for a sum of D rounded products, for vectors no longer than 1 and 1.12; no statistics,
    so the search is exact for adversarial rows too.
    """
    return 1.12 * (dimensions + 8) * 2.0**-24
