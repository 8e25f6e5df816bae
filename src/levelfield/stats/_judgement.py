"""What a judgement says: of each method, of each pair of methods, and in plain words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from levelfield.errors import UsageError, did_you_mean

PairVerdict = Literal["better", "worse", "equivalent", "undecided"]
Shown = Callable[[float, str], str]


def in_points(value: float, sign: str = "") -> str:
    """A fraction in percentage points.

    Example:
        >>> in_points(0.0123), in_points(0.0123, "+")
        ('1.23', '+1.23')
    """
    return f"{100 * value:{sign}.2f}"


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
        difference: Of their means, first - second; negative for a better one where less is better.
        low: Lower end of the interval that holds for all pairs together.
        high: Upper end. The interval of a pair that was found different never crosses 0.
        df: Degrees of freedom of the difference.
        p_value: Of no difference, for this pair alone.
        p_adjusted: The same, corrected for all pairs.
        verdict: What ``first`` is against ``second``; ``judge`` puts the better mean first.
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

    def turned(self) -> JudgedPair:
        """The same with the methods changed round."""
        flipped: dict[PairVerdict, PairVerdict] = {"better": "worse", "worse": "better"}
        return replace(
            self,
            first=self.second,
            second=self.first,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
            verdict=flipped.get(self.verdict, self.verdict),
        )

    def sentence(self, *, shown: Shown = in_points, unit: str = " points", directed: bool = True) -> str:
        """The verdict in plain words.

        Args:
            shown: Writes a number; the sign of a difference where the second argument is "+".
            unit: What follows a difference.
            directed: Whether more or less of the measure is better; otherwise it is only higher or lower.

        Example:
            >>> print(JudgedPair("new", "old", 0.02, 0.01, 0.03, 9.0, 0.0001, 0.0004, "better").sentence())
            new is better than old by 2.00 points [1.00, 3.00] (p < 0.001).
        """
        p = "p < 0.001" if self.p_adjusted < 0.001 else f"p = {self.p_adjusted:.3f}"
        if self.verdict in ("better", "worse"):
            word = self.verdict if directed else "higher" if self.difference > 0 else "lower"
            low, high = sorted((abs(self.low), abs(self.high)))
            small = f", less than the {shown(self.margin or 0, '')} that matter" if self.negligible else ""
            return (
                f"{self.first} is {word} than {self.second} by {shown(abs(self.difference), '')}{unit} "
                f"[{shown(low, '')}, {shown(high, '')}] ({p}){small}."
            )
        both = f"{self.first} and {self.second}"
        gap = f"difference {shown(self.difference, '+')}{unit}"
        within = f"[{shown(self.low, '+')}, {shown(self.high, '+')}]"
        if self.verdict == "equivalent":
            return f"{both} are equivalent within {shown(self.margin or 0, '')}{unit}: {gap} {within}."
        if math.isinf(self.low):
            return f"{both}: undecided, {gap}, nothing to test it by."
        return f"{both}: undecided, {gap} {within} ({p})."


@dataclass(frozen=True)
class Judgement:
    """All methods of a table judged together.

    Attributes:
        estimates: One per method, best mean first.
        pairs: Every pair, the better mean first, in the order of the estimates.
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
