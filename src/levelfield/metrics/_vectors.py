"""Normalized embeddings in two precisions: float32 for the fast search, float64 for decisions.

Cosine distance orders items as the Euclidean distance between unit vectors does. So both distances are
Euclidean here: rows are scaled to unit length, or centered and divided by the gallery's radius.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from levelfield.core.errors import UsageError

Distance: TypeAlias = Literal["cosine", "euclidean"]

PIECE = 8192  # rows converted at a time
CACHE_BYTES = 1 << 30  # a larger normalized gallery is not cached but prepared again for each block


def as_matrix(name: str, embeddings: Any) -> Tensor:
    """Return ``embeddings`` as a real tensor (N, D) that shares the caller's memory or mapped file."""
    if isinstance(embeddings, Tensor):
        source = embeddings.detach()
    else:
        array = np.asanyarray(embeddings)
        if array.dtype.kind not in "fiub":
            raise UsageError(f"{name} is of type {array.dtype}; give real numbers, shape (N, D)")
        with warnings.catch_warnings():  # read-only mapped files are fine: nothing writes to them
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
class RowNormalizer:
    """Scaling of queries and gallery: to unit rows (cosine), or by a center (D,) and a radius (Euclidean)."""

    distance: Distance
    center: Tensor | None = None
    radius: float = 1.0

    def apply(self, rows: Tensor) -> Tensor:
        """Return raw rows (n, D) as normalized float64 rows."""
        rows = rows.double()
        if self.center is not None:
            return (rows - self.center) / self.radius
        rows = rows / rows.abs().amax(1, keepdim=True)  # squaring then neither overflows nor underflows
        return rows / row_norms(rows)


def row_norms(rows: Tensor) -> Tensor:
    """Return the length of each row (n, D), as (n, 1)."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return lengths


def check_rows(name: str, source: Tensor, distance: Distance) -> None:
    """Raise UsageError for NaN, infinity and, under cosine, rows of zeros.

    Reads in pieces, so a mapped file stays on disk.
    """
    for start in range(0, len(source), PIECE):
        piece = source[start : start + PIECE]
        if piece.is_floating_point():
            lengths = torch.linalg.vector_norm(piece, dim=1)
            if float(lengths.min()) > 0 and float(lengths.max()) < torch.inf:
                continue  # also false if one of them is NaN
        if not bool(piece.isfinite().all()):
            row = start + int((~piece.isfinite().all(1)).nonzero()[0])
            raise UsageError(f"{name} row {row} holds NaN or infinity; remove such rows, or fix the model")
        zero = (piece == 0).all(1)
        if distance == "cosine" and bool(zero.any()):
            row = start + int(zero.nonzero()[0])
            raise UsageError(
                f"{name} row {row} is all zeros and has no direction; remove it or use euclidean distance"
            )


def fit_normalizer(gallery: Tensor, distance: Distance) -> RowNormalizer:
    """Return the normalizer for distances to ``gallery`` (M, D)."""
    if distance == "cosine":
        return RowNormalizer("cosine")
    pieces = [slice(start, start + PIECE) for start in range(0, len(gallery), PIECE)]
    sums = torch.stack([(gallery[piece].double() / len(gallery)).sum(0) for piece in pieces])
    centered = RowNormalizer("euclidean", sums.sum(0))
    unit = max(float(centered.apply(gallery[piece]).abs().max()) for piece in pieces) or 1.0
    radius = max(float(row_norms(centered.apply(gallery[piece]) / unit).max()) for piece in pieces) or 1.0
    return RowNormalizer("euclidean", centered.center, unit * radius)


class NormalizedVectors:
    """Queries or gallery (N, D), normalized when they are read."""

    def __init__(self, source: Tensor, normalizer: RowNormalizer) -> None:
        self.source = source
        self.normalizer = normalizer
        self._cached: Tensor | None = None
        self._exact: Tensor | None = None
        self._asked = 0

    def __len__(self) -> int:
        return len(self.source)

    def exact(self, rows: Tensor | slice) -> Tensor:
        """Return normalized rows, float64 (n, D).

        When single rows have been asked for as often as there are rows, all are prepared once and kept, up to
        ``CACHE_BYTES``.
        """
        if isinstance(rows, Tensor) and self._exact is None:
            self._asked += len(rows)
            if self._asked > len(self) and self.source.numel() * 8 <= CACHE_BYTES:
                starts = range(0, len(self), PIECE)
                self._exact = torch.cat([self.exact(slice(start, start + PIECE)) for start in starts])
        return self.normalizer.apply(self.source[rows]) if self._exact is None else self._exact[rows]

    def cache(self) -> None:
        """Prepare the float32 gallery once and keep it, up to ``CACHE_BYTES``."""
        width = self.source.shape[1] + int(self.normalizer.distance == "euclidean")
        if self._cached is not None or len(self) * width * 4 > CACHE_BYTES:
            return
        kept = torch.empty(len(self), width, device=self.source.device)
        for start in range(0, len(self), PIECE):
            self._items(slice(start, start + PIECE), out=kept[start : start + PIECE])
        self._cached = kept

    def items(self, start: int, stop: int) -> Tensor:
        """Return gallery rows for the fast search, float32: the nearest has the largest product."""
        return self._items(slice(start, stop)) if self._cached is None else self._cached[start:stop]

    def queries(self, rows: Tensor) -> Tensor:
        """Return query rows for the fast search, float32, of length 1.

        Under Euclidean distance they end in a 1, which multiplies the -|g|^2 / 2 at the end of gallery rows:
        |q - g|^2 = |q|^2 - 2 (q.g - |g|^2 / 2).
        """
        if self.normalizer.distance == "cosine":
            return self._items(rows) if self._cached is None else self._cached[rows]
        exact = self.exact(rows)
        exact = torch.cat([exact, torch.ones_like(exact[:, :1])], 1)
        return (exact / row_norms(exact)).float()

    def _items(self, rows: Tensor | slice, *, out: Tensor | None = None) -> Tensor:
        """Return rows for the fast search, float32, in ``out`` if it is given."""
        if self.normalizer.distance == "euclidean":
            exact = self.exact(rows)
            return _filled(out, torch.cat([exact, -0.5 * exact.square().sum(1, keepdim=True)], 1))
        given = self.source[rows]
        if given.dtype == torch.float32:  # the common case needs no float64 copy
            lengths = _float64_lengths(given)
            if float(lengths.min()) > 1e-15 and float(lengths.max()) < 1e15:
                return torch.div(given, lengths.float(), out=out)
        return _filled(out, self.normalizer.apply(given))


def _filled(out: Tensor | None, rows: Tensor) -> Tensor:
    return rows.float() if out is None else out.copy_(rows)


def _float64_lengths(rows: Tensor) -> Tensor:
    """Return the length of each float32 row (n, D), summed in float64, as (n, 1)."""
    if rows.device.type != "cpu":
        lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
        return lengths
    given = rows.numpy()  # NumPy converts while it sums, several times faster than torch
    return torch.from_numpy(np.einsum("ij,ij->i", given, given, dtype=np.float64)).sqrt_()[:, None]


def row_blocks(rows: Tensor, height: int) -> Iterator[Tensor]:
    """Yield ``rows`` (N,) or (N, D) in blocks of at most ``height``."""
    for start in range(0, len(rows), height):
        yield rows[start : start + height]


def rounding_error_bound(dimensions: int) -> float:
    """Return the largest error of a float32 product of :meth:`NormalizedVectors.queries` and ``items``.

    This is the classical worst-case bound for a sum of D rounded products of vectors no longer than 1 and
    1.12. So the search is exact for adversarial rows too.
    """
    return 1.12 * (dimensions + 8) * 2.0**-24
