"""Metrics of embedding structure, from "Revisiting Training Strategies" and Wang & Isola (ICML 2020)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.metrics._registry import register
from levelfield.metrics._vectors import (
    PIECE,
    Distance,
    NormalizedVectors,
    RowNormalizer,
    as_matrix,
    check_rows,
    row_blocks,
)

REVISITING = "Revisiting Training Strategies and Generalization Performance in DML (ICML 2020)"
HYPERSPHERE = "Understanding Contrastive Representation Learning (ICML 2020)"
PAIR_NUMBERS = 1 << 24  # numbers held at a time in a step over pairs


@dataclass(frozen=True)
class EmbeddingSpace:
    """Embeddings (N, D) with class numbers (N,) 0..C-1.

    Rows have unit length under cosine distance, and are unchanged under Euclidean distance. All distances
    between them are Euclidean.
    """

    vectors: NormalizedVectors
    labels: Tensor
    num_classes: int

    @classmethod
    def of(cls, source: Tensor, labels: Tensor, num_classes: int, *, distance: Distance) -> EmbeddingSpace:
        """Return the space of the rows of ``source`` (N, D) under this distance."""
        as_given = RowNormalizer("euclidean", torch.zeros((), dtype=torch.float64, device=source.device))
        normalizer = RowNormalizer("cosine") if distance == "cosine" else as_given
        return cls(NormalizedVectors(source, normalizer), labels, num_classes)

    def classes(self) -> Iterator[Tensor]:
        """Yield classes of equal size, at least two samples, as rows (n, size, D); in bounded memory."""
        order = torch.argsort(self.labels, stable=True)
        size = torch.bincount(self.labels, minlength=self.num_classes)
        start = torch.cumsum(size, 0) - size
        for each in torch.unique(size[size > 1]).tolist():
            firsts = start[size == each]
            height = max(1, PAIR_NUMBERS // (each * (each + self.vectors.source.shape[1])))
            for some in row_blocks(firsts, height):
                rows = order[some[:, None] + torch.arange(each, device=order.device)]
                yield self.vectors.exact(rows.flatten()).view(len(some), each, -1)


def singular_values(pieces: Iterator[Tensor]) -> Tensor:
    """Return the singular values, largest first, of rows (N, D) given in pieces; as exact as a full SVD."""
    triangle: Tensor | None = None
    for piece in pieces:
        rows = piece if triangle is None else torch.cat([triangle, piece])
        triangle = torch.linalg.qr(rows, mode="r").R if len(rows) > rows.shape[1] else rows
    assert triangle is not None
    values: Tensor = torch.linalg.svdvals(triangle)
    return values


def spectral_divergence(values: Tensor) -> float:
    """Return KL(uniform || spectrum) of singular values (P,), largest first, without the largest.

    It is infinite if a direction is unused, that is, if a value is 0 up to float32 rounding.
    """
    rest = values[1:]
    if len(rest) == 0 or float(rest[-1]) <= float(values[0]) * 2.0**-22:
        return math.inf
    return float((-torch.log(rest / rest.sum())).mean() - math.log(len(rest)))


@register("rho", higher_is_better=None, label="rho", kind="structure", paper=REVISITING)
def rho(space: EmbeddingSpace) -> float:
    """Return the spectral decay: KL(uniform || singular values without the largest); lower is richer."""
    return spectral_divergence(space_singular_values(space))


@register("rho_class", higher_is_better=None, label="rho class", kind="structure", paper=REVISITING)
def rho_class(space: EmbeddingSpace) -> float:
    """Return the mean rho of single classes with 3 or more samples; degenerate classes are left out."""
    values = [
        value
        for group in space.classes()
        for rows in group
        if len(rows) > 2 and math.isfinite(value := spectral_divergence(torch.linalg.svdvals(rows)))
    ]
    return sum(values) / len(values) if values else math.inf


@register("pi_intra", higher_is_better=None, label="pi intra", kind="structure", paper=REVISITING)
def pi_intra(space: EmbeddingSpace) -> float:
    """Return the mean distance between two samples of one class; all classes have the same weight."""
    total, count = 0.0, 0
    for rows in space.classes():
        size = rows.shape[1]
        distances = torch.stack([_pair_sum(one) for one in rows]) if size > 2048 else _pair_sums(rows)
        total += float(distances.sum()) / (size * (size - 1))
        count += len(rows)
    return total / count if count else math.nan


@register("pi_inter", higher_is_better=None, label="pi inter", kind="structure", paper=REVISITING)
def pi_inter(space: EmbeddingSpace) -> float:
    """Return the mean distance between the mean embeddings of two classes."""
    size = torch.bincount(space.labels, minlength=space.num_classes)
    means = torch.zeros(space.num_classes, space.vectors.source.shape[1], dtype=torch.float64)
    means = means.to(space.labels.device)
    for start in range(0, len(space.vectors), PIECE):
        means.index_add_(
            0, space.labels[start : start + PIECE], space.vectors.exact(slice(start, start + PIECE))
        )
    means = (means / size.clamp(min=1)[:, None])[size > 0]
    return float(_pair_sum(means)) / (len(means) * (len(means) - 1)) if len(means) > 1 else math.nan


@register("pi_ratio", higher_is_better=None, label="pi ratio", kind="structure", paper=REVISITING)
def pi_ratio(space: EmbeddingSpace) -> float:
    """Return pi_intra / pi_inter, the density of the space."""
    inter = pi_inter(space)
    return pi_intra(space) / inter if inter else math.inf


@register("alignment", higher_is_better=False, label="alignment", kind="structure", paper=HYPERSPHERE)
def alignment(space: EmbeddingSpace) -> float:
    """Return the mean squared distance of a positive pair; lower is tighter."""
    total, pairs = 0.0, 0
    for rows in space.classes():
        centered = rows - rows.mean(1, keepdim=True)
        total += 2 * rows.shape[1] * float(centered.square().sum())
        pairs += len(rows) * rows.shape[1] * (rows.shape[1] - 1)
    return total / pairs if pairs else math.nan


@register("uniformity", higher_is_better=False, label="uniformity", kind="structure", paper=HYPERSPHERE)
def uniformity(space: EmbeddingSpace) -> float:
    """Return the log of the mean of exp(-2 d^2) over all pairs; lower is more evenly spread."""
    n = len(space.vectors)
    if n < 2:
        return math.nan
    total = 0.0
    for start in range(0, n, PIECE):
        rows = space.vectors.exact(slice(start, start + PIECE))
        for other in range(0, n, 1024):
            squared = _squared(rows, space.vectors.exact(slice(other, other + 1024)))
            total += float(torch.exp(-2 * squared).sum())
    return math.log((total - n) / (n * (n - 1)))


def spectrum(embeddings: Any, *, distance: Distance = "cosine") -> npt.NDArray[np.float64]:
    """Return the singular values (min(N, D),) of embeddings (N, D), largest first, as shares of their sum.

    Under cosine distance rows are scaled to unit length first. They are not centered.

    Example:
        >>> spectrum([[1.0, 0.0], [0.0, 3.0]])
        array([0.5, 0.5])
    """
    source = as_matrix("embeddings", embeddings)
    check_rows("embeddings", source, distance)
    labels = torch.zeros(len(source), dtype=torch.int64, device=source.device)
    with torch.no_grad():
        values = space_singular_values(EmbeddingSpace.of(source, labels, 1, distance=distance))
    return np.asarray((values / values.sum()).cpu(), dtype=np.float64)


def space_singular_values(space: EmbeddingSpace) -> Tensor:
    """Return all singular values of the space, largest first."""
    starts = range(0, len(space.vectors), PIECE)
    return singular_values(space.vectors.exact(slice(start, start + PIECE)) for start in starts)


def _squared(rows: Tensor, others: Tensor) -> Tensor:
    products = rows @ others.T
    return (rows.square().sum(1, keepdim=True) - 2 * products + others.square().sum(1)).clamp_(min=0)


def _pair_sums(rows: Tensor) -> Tensor:
    """Return the sum of distances over ordered pairs of rows (n, size, D), one for each of the n groups."""
    return torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist").sum((1, 2))


def _pair_sum(rows: Tensor) -> Tensor:
    """Return the sum of distances over ordered pairs of many rows (M, D)."""
    height = max(1, PAIR_NUMBERS // len(rows))
    return torch.stack([_squared(some, rows).sqrt_().sum() for some in row_blocks(rows, height)]).sum()
