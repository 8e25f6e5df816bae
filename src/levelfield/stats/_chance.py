"""Chance in the means of the methods: over classes, over replicates, and what both contain."""

from __future__ import annotations

import math

import numpy as np

from levelfield.stats._difference_variance import (
    method_class_covariance,
    pair_variances,
    residual_covariance,
)
from levelfield.stats._replicate_noise import replicate_noise
from levelfield.stats._simultaneous import Errors
from levelfield.stats._table import Array, ScoreTable


def known_chance(table: ScoreTable, sign: int = 1) -> Errors:
    """Return the chance in the means of a table; ``sign`` is -1 if lower is better."""
    size = len(table.methods)
    overlap = np.zeros(size)
    if table.class_effects is None:
        return Errors(np.zeros((size, size)), math.inf, replicate_noise(table, overlap, sign=sign), overlap)
    covariance, df = method_class_covariance(table)
    first, second = np.triu_indices(size, 1)
    between = np.zeros((size, size))
    between[first, second] = pair_variances(residual_covariance(table), first, second)
    overlap = np.where(table.fixed, 0.0, _split_by_method(between + between.T))
    return Errors(covariance, df, replicate_noise(table, overlap, sign=sign), overlap)


def _split_by_method(between: Array) -> Array:
    """Split the variances of differences (M x M) into one part per method (M)."""
    size = len(between)
    if size < 3:
        return np.full(size, between.sum() / 4)
    sums = between.sum(axis=1)
    parts: Array = np.maximum((sums - sums.sum() / (2 * (size - 1))) / (size - 2), 0.0)
    return parts
