"""The procedure of ``judge``, written plainly: loops over methods, numerical integrals, no arrays of cases.

Slow, for few methods with several searches, reruns and classes of one size, without missing reruns.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEP = 0.25
GRID = [STEP * k for k in range(-56, 41)]
CENTERS = [-6.0 + 0.5 * k for k in range(25)]
WIDTHS = [0.0, 0.3, 0.6, 0.9, 1.2, 1.6, 2.0, 2.5, 3.0, 3.6, 4.5]
RATES = {0.0: 0.6, 0.03: 0.12, 0.08: 0.10, 0.15: 0.08, 0.25: 0.06, 0.35: 0.04}


def without_shared_luck(scores: list[list[float]]) -> list[list[float]]:
    """Return deviations of replicates from their method's mean, without what all methods have in common."""
    methods, count = len(scores), len(scores[0])
    deviations = [[x - sum(row) / count for x in row] for row in scores]
    variances = [sum(x * x for x in row) / (count - 1) for row in deviations]
    middle = float(np.median(variances))
    weights = [1 / (v + middle) for v in variances]
    weights = [w / sum(weights) for w in weights]
    common = [sum(weights[m] * deviations[m][u] for m in range(methods)) for u in range(count)]
    rests = [[deviations[m][u] - common[u] for u in range(count)] for m in range(methods)]
    squares = [sum(x * x for x in rest) / (1 - w) ** 2 for rest, w in zip(rests, weights, strict=True)]
    found = []
    for m, rest in enumerate(rests):
        wanted = squares[m]
        if methods >= 12:
            others = sum(weights[k] ** 2 * squares[k] for k in range(methods) if k != m)
            wanted = max(squares[m] - others / (1 - weights[m]) ** 2, squares[m] / 2)
        scale = math.sqrt(wanted / sum(x * x for x in rest))
        found.append([x * scale for x in rest])
    return found


def density(values: list[float], bad: int, variance: float, drop: float) -> tuple[float, float, float]:
    """Return the likelihood of replicates whose lowest ``bad`` lost ``drop``, and the level they suggest.

    The level of the method is integrated out: all levels are equally likely before.
    """
    ordered = sorted(values)
    spread = [variance + (0.2 * drop) ** 2 if k < bad else variance for k in range(len(ordered))]
    moved = [x + drop if k < bad else x for k, x in enumerate(ordered)]
    precision = sum(1 / s for s in spread)
    level = sum(x / s for x, s in zip(moved, spread, strict=True)) / precision
    logs = -0.5 * sum(math.log(s) + (x - level) ** 2 / s for x, s in zip(moved, spread, strict=True))
    return math.exp(logs - 0.5 * math.log(precision)), level, 1 / precision


def prior(center: float, width: float) -> list[float]:
    """Return the chance of each log variance of the grid."""
    found = [0.0] * len(GRID)
    for share, wider in ((0.97, 0.0), (0.03, 3.3)):
        spread = math.sqrt(width**2 + wider**2 + (STEP / 2) ** 2)
        heights = [math.exp(-0.5 * ((g - center) / spread) ** 2) for g in GRID]
        found = [a + share * h / sum(heights) for a, h in zip(found, heights, strict=True)]
    return found


def noise_moments(scores: list[list[float]], base: list[float]) -> tuple[list[float], list[float], float]:
    """Return mean and second moment of the error of each method's mean, and the share of bad replicates.

    Args:
        scores: Score of each replicate, by method.
        base: Part of one replicate's variance that is known, by method.
    """
    values = without_shared_luck(scores)
    methods, count = len(values), len(values[0])
    typical = float(np.median([sum(x * x for x in row) / (count - 1) for row in values]))
    widest = max(max(row) - min(row) for row in values)
    least = 3 * math.sqrt(typical)
    common = np.geomspace(least, max(widest, 2 * least), 5).tolist()
    gaps = np.gradient(WIDTHS).tolist()
    priors = [
        (math.exp(-0.5 * (w / 2.5) ** 2) * gap, prior(c, w))
        for c in CENTERS
        for w, gap in zip(WIDTHS, gaps, strict=True)
    ]
    total, rate_total = 0.0, 0.0
    first, second = [0.0] * methods, [0.0] * methods
    for rate, rate_chance in RATES.items():
        kinds = [("same", d) for d in common] + [("own", k) for k in (6.0, 12.0)]
        for kind, size in kinds if rate else kinds[:1]:
            share = rate_chance / (len(kinds) if rate else 1)
            by_point = []  # for each method and grid point: likelihood, first and second moment
            for m in range(methods):
                rows = []
                for g in GRID:
                    variance = typical * math.exp(g) + base[m]
                    drop = size if kind == "same" else size * math.sqrt(variance)
                    zero = one = two = 0.0
                    for bad in range(count + 1):
                        chance = rate**bad * (1 - rate) ** (count - bad)
                        if chance == 0:
                            continue
                        likelihood, level, spread = density(values[m], bad, variance, drop)
                        error = level - rate * drop
                        zero += chance * likelihood
                        one += chance * likelihood * error
                        two += chance * likelihood * (spread + error**2)
                    rows.append((zero, one, two))
                by_point.append(np.array(rows))
            for weight, chances in priors:
                integrated = [np.array(chances) @ rows for rows in by_point]
                evidence = share * weight * math.prod(float(each[0]) for each in integrated)
                total += evidence
                rate_total += evidence * rate
                for m, each in enumerate(integrated):
                    first[m] += evidence * float(each[1] / each[0])
                    second[m] += evidence * float(each[2] / each[0])
    return [x / total for x in first], [x / total for x in second], rate_total / total


def step_down_p_values(scores: Array, draws: Array) -> dict[int, float]:
    """Return adjusted p-values of P scores from draws of them (n x P): each against the less significant."""
    order = sorted(range(len(scores)), key=lambda k: -scores[k])
    found: dict[int, float] = {}
    largest = 0.0
    for position, k in enumerate(order):
        rest = order[position:]
        reached = sum(1 for row in draws if max(row[j] for j in rest) >= scores[k])
        largest = max(largest, (reached + 1) / (len(draws) + 1))
        found[k] = min(largest, 1.0)
    return found


def pairs(methods: int) -> list[tuple[int, int]]:
    """Return all pairs of methods, in the order of ``judge``."""
    return list(combinations(range(methods), 2))
