"""Whether a repeated experiment says the same: every number before and after, judged together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np
from scipy.special import stdtr

from levelfield.errors import UsageError
from levelfield.stats._holm import holm
from levelfield.stats._moderate import moderated, shared_df
from levelfield.stats._table import Array

RepeatVerdict = Literal["identical", "consistent", "different", "missing"]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class RepeatedNumber(Generic[Key]):
    """One mean, before and after.

    Attributes:
        key: What the number is.
        before: Mean of the original.
        after: Mean of the repetition; NaN if it is missing.
        error: Standard error of their difference; NaN where neither has two values.
        p_adjusted: Of no difference, corrected for all numbers; 1 where nothing was tested.
        verdict: "different" only on evidence; "missing" where the repetition has no value at all.
    """

    key: Key
    before: float
    after: float
    error: float
    p_adjusted: float
    verdict: RepeatVerdict


def compare_repetition(
    before: Mapping[Key, Sequence[float]],
    after: Mapping[Key, Sequence[float]],
    *,
    groups: Mapping[Key, Hashable] | None = None,
    alpha: float = 0.05,
    tolerance: float = 0.001,
) -> list[RepeatedNumber[Key]]:
    """Compare the reruns' scores of a repetition with those of the original, number by number.

    Each number is a two-sample t-test with one variance for both sides, which is what a faithful repetition
    has; Holm's correction makes the chance of any false "different" in the whole ``alpha`` at most.

    Args:
        before: Scores of the reruns, by whatever names the number (method, setting, metric).
        after: The same of the repetition.
        groups: What kind of number each key is (setting and metric): numbers of one kind are on one scale and
            learn from each other how much reruns scatter. Each number is on its own by default.
        alpha: Chance that a faithful repetition is called different anywhere.
        tolerance: What values may differ by where neither side scatters: what has no luck has only bits.

    Example:
        >>> runs = {"a": [0.50, 0.51, 0.52], "b": [0.40, 0.41, 0.40], "net": [0.3]}
        >>> again = {"a": [0.51, 0.50, 0.53], "b": [0.60, 0.61, 0.60], "net": [0.3]}
        >>> [number.verdict for number in compare_repetition(runs, again)]
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
        verdict: RepeatVerdict = "missing"
        if key in there and list(values) == list(after[key]):
            verdict = "identical"
        elif key in adjusted and len({*values}) + len({*after[key]}) > 2:
            verdict = "different" if adjusted[key] < alpha else "consistent"
        elif key in there:
            verdict = "consistent" if abs(new - old) <= tolerance else "different"
        found.append(RepeatedNumber(key, old, new, known.get(key, math.nan), adjusted.get(key, 1.0), verdict))
    return found


def _errors(
    before: Mapping[Key, Sequence[float]],
    after: Mapping[Key, Sequence[float]],
    keys: Sequence[Key],
    groups: Mapping[Key, Hashable] | None,
) -> tuple[Array, Array]:
    """The standard error of each difference of means, and its degrees of freedom."""
    errors, df = np.zeros(len(keys)), np.ones(len(keys))
    members: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(("own", key) if groups is None else ("group", groups[key]), []).append(index)
    for group in members.values():
        centred = [
            np.concatenate([np.subtract(part, np.mean(part)) for part in (before[keys[k]], after[keys[k]])])
            for k in group
        ]
        own_df = np.array([len(values) - 2.0 for values in centred])
        own = np.array([float((values**2).sum()) for values in centred]) / own_df
        drawn, drawn_df = moderated(own, own_df, pooled_df=shared_df(centred, own_df))
        sizes = [1 / len(before[keys[k]]) + 1 / len(after[keys[k]]) for k in group]
        errors[group], df[group] = np.sqrt(drawn * sizes), drawn_df
    return errors, df
