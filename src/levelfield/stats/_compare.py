"""All pairs of methods on the same queries, corrected for their number, and said in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from levelfield.errors import UsageError, did_you_mean
from levelfield.stats._effects import cliffs_delta, cohens_d
from levelfield.stats._holm import holm
from levelfield.stats._paired import (
    Difference,
    Values,
    bootstrap_interval,
    paired_differences,
    permutation_p_value,
)
from levelfield.stats._resample import bootstrap_means, flipped_sums

Verdict = Literal["better", "worse", "not distinguishable"]


@dataclass(frozen=True)
class Pair:
    """Two methods compared on the same queries.

    Attributes:
        first: One method.
        second: The other.
        difference: Mean of first - second with its bootstrap interval.
        p_value: Of the paired permutation test.
        p_adjusted: The same after Holm's correction over all pairs.
        d: Cohen's d of the paired differences.
        delta: Cliff's delta.
        verdict: What ``first`` is, against ``second``.
    """

    first: str
    second: str
    difference: Difference
    p_value: float
    p_adjusted: float
    d: float
    delta: float
    verdict: Verdict

    @property
    def sentence(self) -> str:
        """The comparison in words: better, worse, or not distinguishable."""
        gap = self.difference
        p = "p < 0.001" if self.p_adjusted < 0.001 else f"p = {self.p_adjusted:.3f}"
        if self.verdict == "not distinguishable":
            return (
                f"{self.first} and {self.second} are not distinguishable: difference {gap.mean:+.3f} "
                f"[{gap.low:+.3f}, {gap.high:+.3f}] ({p}, n = {gap.n})."
            )
        low, high = (gap.low, gap.high) if gap.mean > 0 else (-gap.high, -gap.low)
        return (
            f"{self.first} is {self.verdict} than {self.second} by {abs(gap.mean):.3f} "
            f"[{low:.3f}, {high:.3f}] ({p}, n = {gap.n})."
        )


def compare_pairs(
    values: Mapping[str, Values],
    *,
    against: str | None = None,
    alpha: float = 0.05,
    resamples: int = 10_000,
    permutations: int = 10_000,
    seed: int = 0,
) -> list[Pair]:
    """Compare every pair of methods by their values on the same queries (or reruns with the same seeds).

    All pairs share the same random draws, so many methods cost little more than two. A pair counts as
    different where the Holm-adjusted p-value of the permutation test is below ``alpha``.

    Few values bound what can be found: n of them have no p-value below 2^(1-n), and Holm multiplies it by the
    number of pairs. Ten reruns can tell two methods apart, but not 91 pairs; compare with the best then.

    Args:
        values: Values (n) by method, all in the same order of queries; higher is better.
        against: Compare only with this method, which becomes the second of each pair.
        alpha: Chance of calling any of the pairs different where none is.
        resamples: Bootstrap draws for the intervals, each at confidence ``1 - alpha``.
        permutations: Random sign flips for the p-values.
        seed: Of both.

    Example:
        >>> values = {"new": [0.9, 0.8, 0.7, 0.9] * 5, "old": [0.5, 0.5, 0.4, 0.6] * 5}
        >>> [pair.sentence for pair in compare_pairs(values)]
        ['new is better than old by 0.325 [0.310, 0.345] (p < 0.001, n = 20).']
    """
    if len(values) < 2:
        raise UsageError(f"a comparison needs at least two methods, got {len(values)}")
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must lie between 0 and 1, got {alpha}")
    if against is not None and against not in values:
        raise UsageError(f'there is no method "{against}" to compare with{did_you_mean(against, values)}')
    names = list(values)
    for name in names[1:]:
        paired_differences(values[names[0]], values[name])
    table = np.stack([np.asarray(values[name], dtype=np.float64) for name in names], axis=1)
    means = bootstrap_means(table, resamples=resamples, seed=seed)
    sums, exact = flipped_sums(table, permutations=permutations, seed=seed)
    pairs = []
    for i, j in chosen_pairs(names, against):
        differences = table[:, i] - table[:, j]
        p_value = permutation_p_value(
            float(differences.sum()),
            sums[:, i] - sums[:, j],
            scale=float(np.abs(table[:, [i, j]]).sum()),
            exact=exact,
        )
        pairs.append(
            Pair(
                first=names[i],
                second=names[j],
                difference=bootstrap_interval(differences, means[:, i] - means[:, j], confidence=1 - alpha),
                p_value=p_value,
                p_adjusted=p_value,
                d=cohens_d(table[:, i], table[:, j]),
                delta=cliffs_delta(table[:, i], table[:, j]),
                verdict="not distinguishable",
            )
        )
    adjusted = holm([pair.p_value for pair in pairs]).tolist()
    return [
        replace(pair, p_adjusted=p, verdict=verdict(pair.difference.mean, p, alpha=alpha))
        for pair, p in zip(pairs, adjusted, strict=True)
    ]


def chosen_pairs(names: Sequence[str], against: str | None) -> list[tuple[int, int]]:
    """All pairs of indices, or each other index with that of ``against``."""
    if against is None:
        return list(combinations(range(len(names)), 2))
    other = names.index(against)
    return [(index, other) for index in range(len(names)) if index != other]


def verdict(difference: float, p_value: float, *, alpha: float = 0.05) -> Verdict:
    """What a difference of that p-value says.

    Example:
        >>> verdict(0.1, 0.01), verdict(-0.1, 0.01), verdict(0.1, 0.2)
        ('better', 'worse', 'not distinguishable')
    """
    if p_value >= alpha or difference == 0:
        return "not distinguishable"
    return "better" if difference > 0 else "worse"
