"""What a judgement says: of each method, of each pair of methods, and in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from levelfield.errors import UsageError, did_you_mean

PairVerdict = Literal["better", "worse", "equivalent", "undecided"]


@dataclass(frozen=True)
class Estimate:
    """One method's mean, as it would be on new classes of this kind and with new seeds.

    Attributes:
        method: Its name.
        mean: Its score.
        low: Lower end of its 95% interval (or of what ``alpha`` says), for this method alone.
        high: Upper end.
        df: Degrees of freedom of the interval.
        class_error: Standard error from the choice of classes; NaN where it is not known.
        replicate_error: Standard error that reruns (or searches) add; NaN where it is not known.
        leads: Whether no other method was found better.
        behind: By how much it may be behind the best at most, simultaneously for all methods; 0 for a method
            that was found better than all others.
    """

    method: str
    mean: float
    low: float
    high: float
    df: float
    class_error: float
    replicate_error: float
    leads: bool
    behind: float


@dataclass(frozen=True)
class JudgedPair:
    """Two methods compared.

    Attributes:
        first: One method.
        second: The other.
        difference: Of their means, first - second.
        low: Lower end of the interval that holds for all pairs together.
        high: Upper end. The interval of a pair that was found different never crosses 0.
        df: Degrees of freedom of the difference.
        p_value: Of no difference, for this pair alone.
        p_adjusted: The same, corrected for all pairs.
        verdict: What ``first`` is against ``second``.
        margin: Largest difference that does not matter, if one was given.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    df: float
    p_value: float
    p_adjusted: float
    verdict: PairVerdict
    margin: float | None = None

    @property
    def negligible(self) -> bool:
        """Whether the difference, real or not, is smaller than the margin."""
        return self.margin is not None and -self.margin < self.low and self.high < self.margin

    @property
    def sentence(self) -> str:
        """The verdict in plain words, in percentage points.

        Example:
            >>> print(JudgedPair("new", "old", 0.02, 0.01, 0.03, 9.0, 0.0001, 0.0004, "better").sentence)
            new is better than old by 2.00 points [1.00, 3.00] (p < 0.001).
        """
        p = "p < 0.001" if self.p_adjusted < 0.001 else f"p = {self.p_adjusted:.3f}"
        low, high, gap = 100 * self.low, 100 * self.high, 100 * self.difference
        if self.verdict in ("better", "worse"):
            if gap < 0:
                low, high = -high, -low
            small = f", less than the {_points(self.margin)} that matter" if self.negligible else ""
            return (
                f"{self.first} is {self.verdict} than {self.second} by {abs(gap):.2f} points "
                f"[{low:.2f}, {high:.2f}] ({p}){small}."
            )
        if self.verdict == "equivalent":
            return (
                f"{self.first} and {self.second} are equivalent within {_points(self.margin)} points: "
                f"difference {gap:+.2f} [{low:+.2f}, {high:+.2f}]."
            )
        if math.isinf(self.low):
            there = f"difference {gap:+.2f} points, nothing to test it by"
            return f"{self.first} and {self.second}: undecided, {there}."
        return (
            f"{self.first} and {self.second}: undecided, difference {gap:+.2f} points "
            f"[{low:+.2f}, {high:+.2f}] ({p})."
        )


@dataclass(frozen=True)
class Judgement:
    """All methods of a table judged together.

    Attributes:
        estimates: One per method, best mean first.
        pairs: Every pair, the better mean first, in the order of the means.
        alpha: Chance of any false "better" or "worse".
        margin: Largest difference that does not matter; None if no equivalence was asked for.
        classes: How many classes counted as chance; 0 where there were no values per query.
        reruns: The largest number of reruns per search of any method.
        repeats: The largest number of searches of any method.
        caveats: What these verdicts cannot say, one sentence each.
    """

    estimates: tuple[Estimate, ...]
    pairs: tuple[JudgedPair, ...]
    alpha: float
    margin: float | None
    classes: int
    reruns: int
    repeats: int
    caveats: tuple[str, ...]

    @property
    def leaders(self) -> frozenset[str]:
        """The methods that may be the best: none was found better than they."""
        return frozenset(estimate.method for estimate in self.estimates if estimate.leads)

    def pair(self, first: str, second: str) -> JudgedPair:
        """The comparison of two methods, whichever of them comes first in it."""
        for found in self.pairs:
            if {found.first, found.second} == {first, second}:
                return found
        names = [estimate.method for estimate in self.estimates]
        wrong = first if first not in names else second
        raise UsageError(f'no comparison with "{wrong}"{did_you_mean(wrong, names)}')


def _points(margin: float | None) -> str:
    return f"{100 * (margin or 0):.3g}"
