"""Simulated experiments with known true scores and random classes, seeds and searches."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom


def class_means(
    generator: np.random.Generator,
    *,
    methods: int,
    reruns: int,
    repeats: int = 1,
    classes: int = 60,
    own: float = 1.0,
    run: float = 0.5,
    seed: float = 0.2,
    correlation: float = 0.5,
    search: float = 0.0,
) -> NDArray[np.float64]:
    """Values (methods x repeats x reruns x classes) around 0; spreads are standard deviations."""
    values = 3 * generator.standard_normal((1, 1, 1, classes))
    values = values + own * generator.standard_normal((methods, 1, 1, classes))
    values = values + run * generator.standard_normal((methods, repeats, reruns, classes))
    luck = math.sqrt(correlation) * generator.standard_normal((1, repeats, reruns))
    luck = luck + math.sqrt(1 - correlation) * generator.standard_normal((methods, repeats, reruns))
    luck = seed * luck + search * generator.standard_normal((methods, repeats, 1))
    return values + luck[..., None]


def likely(rate: float, trials: int, *, doubt: float = 1e-4) -> tuple[int, int]:
    """Range of a binomial count, missed with probability ``doubt``: tests must not fail by chance."""
    low, high = np.asarray(binom.ppf([doubt / 2, 1 - doubt / 2], trials, rate))
    return int(low), int(high)
