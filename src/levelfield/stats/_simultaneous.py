"""Simultaneous tests and intervals for all pairs, from draws of the errors of the methods' means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr, stdtrit

from levelfield.stats._difference_variance import Index, pair_variances
from levelfield.stats._replicate_noise import NoiseDraws
from levelfield.stats._table import Array

CHUNK = 2_000  # draws at a time; 7 MB for 30 methods
MOST_DF = 1e4
TAILS = (2e-2, 2e-4)  # where a pair's t-distribution is matched to its draws
NODES = 40  # variances that stand for all draws of a pair
PILOT = 4_000  # draws that set the scale and the degrees of freedom of each pair


class Noise(Protocol):
    """Chance over replicates, as ``ReplicateNoise`` knows it."""

    trained: Index
    counts: Array
    weights: Array

    @property
    def learned(self) -> bool:
        """True if variances were learned from all methods."""

    @property
    def bad_chance(self) -> float:
        """Chance that replicates go badly at all."""

    def draw(self, size: int, generator: np.random.Generator) -> NoiseDraws:
        """Draw the errors of the trained methods' means."""


@dataclass(frozen=True)
class Errors:
    """Chance in the differences of all pairs.

    Attributes:
        classes: Covariance of the methods' means over the choice of classes (M x M).
        class_df: Degrees of freedom of ``classes``.
        noise: Noise of replicates; None if unknown.
        overlap: Variance of one replicate's score that ``classes`` contains too, by method (M).
    """

    classes: Array
    class_df: float
    noise: Noise | None
    overlap: Array


@dataclass(frozen=True)
class Simultaneous:
    """Tests of all pairs (P each).

    Attributes:
        error: Standard error of each difference.
        df: Degrees of freedom of each difference.
        p_values: p-values of no difference, for each pair alone.
        p_adjusted: p-values corrected for all pairs (step-down).
        half: Half-widths of the simultaneous intervals.
    """

    error: Array
    df: Array
    p_values: Array
    p_adjusted: Array
    half: Array


class PairDraws:
    """Draws of the errors of all differences; the same seed gives the same draws."""

    def __init__(self, errors: Errors, first: Index, second: Index, draws: int, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.first, self.second, self.draws = first, second, draws
        self.root = _root(errors.classes)
        size = len(errors.classes)
        self.scale = np.ones(draws)
        if np.isfinite(errors.class_df):
            self.scale = np.sqrt(errors.class_df / self.generator.chisquare(errors.class_df, draws))
        self.class_variance = pair_variances(errors.classes, first, second)
        self.shift, self.variance = np.zeros((size, draws)), np.zeros((size, draws))
        self.shared_weights, self.shared = np.zeros((size, 1)), np.zeros(draws)
        if errors.noise is not None:
            found = draw_noise(errors, draws, self.generator)
            self.shift, self.variance, self.shared = found.shift, found.variance, found.shared
            self.shared_weights = errors.noise.weights
        gap = self.shared_weights[first] - self.shared_weights[second]
        self.shared_share = (gap**2).sum(axis=1)

    def parts(self, some: slice) -> tuple[Array, Array]:
        """Return expected error and variance of differences (P x draws), for some of the draws."""
        shift, variance = self.shift[:, some], self.variance[:, some]
        total = variance[self.first] + variance[self.second]
        total += np.outer(self.class_variance, self.scale[some] ** 2)
        if self.shared_share.any():
            total += np.outer(self.shared_share, self.shared[some])
        return shift[self.first] - shift[self.second], total

    def differences(self, some: slice) -> Array:
        """Return the errors of differences (P x draws), for some of the draws; call it in order."""
        shape = self.shift[:, some].shape
        means = (self.root @ self.generator.standard_normal(shape)) * self.scale[some]
        means += self.shift[:, some] + self.generator.standard_normal(shape) * np.sqrt(self.variance[:, some])
        if self.shared_share.any():
            luck = self.generator.standard_normal((self.shared_weights.shape[1], shape[1]))
            means += self.shared_weights @ (luck * np.sqrt(self.shared[some]))
        found: Array = means[self.first] - means[self.second]
        return found


def draw_noise(errors: Errors, draws: int, generator: np.random.Generator) -> NoiseDraws:
    """Draw the errors of all means over replicates (M x draws), in random order, without the overlap."""
    size = len(errors.classes)
    shift, variance, shared = np.zeros((size, draws)), np.zeros((size, draws)), np.zeros(draws)
    if errors.noise is not None:
        found = errors.noise.draw(draws, generator)
        order = generator.permutation(draws)
        trained = errors.noise.trained
        spare = (errors.overlap[trained] / errors.noise.counts)[:, None]
        shift[trained] = found.shift[:, order]
        variance[trained] = np.maximum(found.variance - spare, 0.0)[:, order]
        shared = found.shared[order]
    return NoiseDraws(shift, variance, shared)


def simultaneous(
    gaps: Array, errors: Errors, first: Index, second: Index, *, alpha: float, draws: int, seed: int
) -> Simultaneous:
    """Test all differences (P) together, and return their simultaneous intervals.

    Every difference is put on one scale by its own standard error and degrees of freedom, so that each pair
    has the same share in the error rate. The largest of all simulated ones gives the critical value.
    """
    drawn = PairDraws(errors, first, second, draws, seed)
    error, df = _scales(drawn)
    observed = _score(np.abs(gaps), error, df)
    order = np.argsort(-observed, kind="stable")
    ordered = observed[order][:, None]
    exceeded, tails = np.zeros(len(gaps)), np.zeros(len(gaps))
    largest = np.empty(draws)
    for start in range(0, draws, CHUNK):
        some = slice(start, min(start + CHUNK, draws))
        scores = _score(np.abs(drawn.differences(some))[order], error[order, None], df[order, None])
        # maximum over this pair and all less significant ones
        running = np.maximum.accumulate(scores[::-1], axis=0)[::-1]
        exceeded += (running >= ordered).sum(axis=1)
        largest[some] = running[0]
        tails += _tails(gaps, *drawn.parts(some))
    p_sorted = np.maximum.accumulate((exceeded + 1) / (draws + 1))
    adjusted = np.empty_like(p_sorted)
    adjusted[order] = np.minimum(p_sorted, 1.0)
    half = _unscore(float(np.quantile(largest, 1 - alpha)), error, df)
    return Simultaneous(error, df, np.minimum(tails / draws, 1.0), adjusted, half)


def _scales(drawn: PairDraws) -> tuple[Array, Array]:
    """Return standard error and degrees of freedom of each pair: those of the t-distribution alike.

    The two have the same differences at two small tail probabilities, between which the critical value lies.
    """
    shift, variance = drawn.parts(slice(0, PILOT))  # draws are in random order
    total = np.sort(shift**2 + variance, axis=1)
    edges = 1 - np.geomspace(1, 1 / total.shape[1], NODES + 1)
    ranks = ((edges[1:] + edges[:-1]) / 2 * total.shape[1]).astype(int)
    nodes, shares = np.sqrt(total[:, ranks]), np.diff(edges) / (edges[-1] - edges[0])
    certain = ~(nodes[:, -1] > 0)
    nodes = np.where(certain[:, None], 1.0, np.maximum(nodes, 1e-9 * nodes[:, -1:]))
    near, far = (_size_at(tail, nodes, shares) for tail in TAILS)
    df = np.interp(near / far, *_RATIOS)
    error = near / np.interp(1 / df, *_NEAR)
    return np.where(certain, 0.0, error), df


def _size_at(tail: float, sds: Array, shares: Array) -> Array:
    """Return the size (P) that a mixture of normals (P x nodes) exceeds with probability ``tail``."""
    low, high = np.log(sds[:, 0]) - 3, np.log(sds[:, -1]) + 3
    for _ in range(25):
        middle = (low + high) / 2
        above = 2 * ndtr(-np.exp(middle)[:, None] / sds) @ shares > tail
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    found: Array = np.exp((low + high) / 2)
    return found


def _t_tables() -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return tables of t-distributions: df by the ratio of two quantiles, a quantile by 1 / df."""
    df: Array = np.geomspace(1.0, MOST_DF, 200, dtype=np.float64)
    near, far = (np.asarray(-stdtrit(df, tail / 2), dtype=np.float64) for tail in TAILS)
    ratios: Array = near / far
    return (ratios, df), (1 / df[::-1], near[::-1])


_RATIOS, _NEAR = _t_tables()


def _score(sizes: Array, error: Array, df: Array) -> Array:
    """Return the normal score of differences' sizes: Wallace's approximation for t-distributions."""
    inverse = np.divide(1.0, error * np.sqrt(df), out=np.zeros_like(error), where=error > 0)
    found: Array = np.sqrt(np.log1p((sizes * inverse) ** 2)) * (np.sqrt(df) * (8 * df + 1) / (8 * df + 3))
    return found


def _unscore(score: float, error: Array, df: Array) -> Array:
    """Return the sizes of differences that have a normal score; the inverse of ``_score``."""
    exponent = np.minimum((score * (8 * df + 3) / (8 * df + 1)) ** 2 / df, 700.0)
    found: Array = error * np.sqrt(df * np.expm1(exponent))
    return found


def _tails(gaps: Array, shift: Array, variance: Array) -> Array:
    """Return the sum over draws of the chance of an error as large as each gap (P)."""
    inverse = 1 / np.sqrt(np.maximum(variance, 1e-300))
    sizes = np.abs(gaps)[:, None]
    above: Array = ndtr((shift - sizes) * inverse).sum(axis=1)
    if not shift.any():
        return 2 * above
    below: Array = ndtr((-shift - sizes) * inverse).sum(axis=1)
    return above + below


def _root(covariance: Array) -> Array:
    """Return the symmetric square root of a covariance, which may be singular.

    Other roots depend on the signs of eigenvectors, which differ between linear algebra libraries.
    """
    values, vectors = np.linalg.eigh(covariance)
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
