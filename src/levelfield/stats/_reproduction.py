"""Comparison of an experiment with its reproduction: every score of both, tested together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np
from scipy.special import stdtr

from levelfield.core.errors import UsageError
from levelfield.stats._holm import holm
from levelfield.stats._moderate import effective_df, moderate_variances
from levelfield.stats._table import Array

ReproductionVerdict = Literal["identical", "consistent", "different", "missing"]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class ReproducedMean(Generic[Key]):
    """One mean score of the original and of the reproduction.

    Attributes:
        key: Name of the score.
        before: Mean of the original.
        after: Mean of the reproduction; NaN if missing.
        error: Standard error of their difference; NaN if neither has two values.
        p_adjusted: p-value of no difference, corrected for all scores; 1 if not tested.
        verdict: "identical", "consistent" (no evidence of a difference), "different", or "missing" (no value
            in the reproduction).
    """

    key: Key
    before: float
    after: float
    error: float
    p_adjusted: float
    verdict: ReproductionVerdict


def compare_reproduction(
    before: Mapping[Key, Sequence[float]],
    after: Mapping[Key, Sequence[float]],
    *,
    groups: Mapping[Key, Hashable] | None = None,
    alpha: float = 0.05,
    tolerance: float = 0.001,
) -> list[ReproducedMean[Key]]:
    """Compare the scores of a reproduction's reruns with those of the original.

    Each key is tested by a two-sample t-test with equal variances. Holm's correction keeps the probability of
    any false "different" at ``alpha`` or below.

    Args:
        before: Scores of the original's reruns, by key (method, setting, metric).
        after: Scores of the reproduction's reruns, by key.
        groups: Group of each key (setting and metric). Keys of one group have one scale, and their variances
            are moderated together. By default each key is its own group.
        alpha: Probability that a faithful reproduction has any "different".
        tolerance: Largest difference that counts as consistent for a key whose values do not vary.

    Example:
        >>> runs = {"a": [0.50, 0.51, 0.52], "b": [0.40, 0.41, 0.40], "net": [0.3]}
        >>> again = {"a": [0.51, 0.50, 0.53], "b": [0.60, 0.61, 0.60], "net": [0.3]}
        >>> [number.verdict for number in compare_reproduction(runs, again)]
        ['consistent', 'different', 'identical']
    """
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must lie between 0 and 1, got {alpha}")
    if empty := [key for key, values in before.items() if not len(values)]:
        raise UsageError(f"the original has no score of {empty[0]!r}; leave it out")
    there = [key for key in before if len(after.get(key, ()))]
    tested = [key for key in there if len(before[key]) + len(after[key]) > 2]
    errors, df = _errors(before, after, tested, groups)
    gaps = np.array([np.mean(after[key]) - np.mean(before[key]) for key in tested])
    with np.errstate(divide="ignore", invalid="ignore"):
        statistics = np.where(gaps == 0, 0.0, np.abs(gaps) / errors)
    adjusted = dict(zip(tested, holm(np.minimum(2 * stdtr(df, -statistics), 1.0)).tolist(), strict=True))
    known = dict(zip(tested, errors.tolist(), strict=True))
    found = []
    for key, values in before.items():
        old, new = float(np.mean(values)), float(np.mean(after[key])) if key in there else math.nan
        verdict: ReproductionVerdict = "missing"
        if key in there and list(values) == list(after[key]):
            verdict = "identical"
        elif key in adjusted and len({*values}) + len({*after[key]}) > 2:
            verdict = "different" if adjusted[key] < alpha else "consistent"
        elif key in there:
            verdict = "consistent" if abs(new - old) <= tolerance else "different"
        found.append(ReproducedMean(key, old, new, known.get(key, math.nan), adjusted.get(key, 1.0), verdict))
    return found


def _errors(
    before: Mapping[Key, Sequence[float]],
    after: Mapping[Key, Sequence[float]],
    keys: Sequence[Key],
    groups: Mapping[Key, Hashable] | None,
) -> tuple[Array, Array]:
    """Return the standard error of each difference of means, and its degrees of freedom."""
    errors, df = np.zeros(len(keys)), np.ones(len(keys))
    members: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(("own", key) if groups is None else ("group", groups[key]), []).append(index)
    for group in members.values():
        centered = [
            np.concatenate([np.subtract(part, np.mean(part)) for part in (before[keys[k]], after[keys[k]])])
            for k in group
        ]
        own_df = np.array([len(values) - 2.0 for values in centered])
        own = np.array([float((values**2).sum()) for values in centered]) / own_df
        drawn, drawn_df = moderate_variances(own, own_df, pooled_df=effective_df(centered, own_df))
        sizes = [1 / len(before[keys[k]]) + 1 / len(after[keys[k]]) for k in group]
        errors[group], df[group] = np.sqrt(drawn * sizes), drawn_df
    return errors, df
