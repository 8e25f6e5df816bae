"""Result types of a judgment: estimates of methods, verdicts on pairs, and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from levelfield.core.errors import UsageError, did_you_mean

PairVerdict = Literal["better", "worse", "equivalent", "undecided"]
FormatNumber = Callable[[float, str], str]


def format_points(value: float, sign: str = "") -> str:
    """Format a fraction as percentage points.

    Example:
        >>> format_points(0.0123), format_points(0.0123, "+")
        ('1.23', '+1.23')
    """
    return f"{100 * value:{sign}.2f}"


@dataclass(frozen=True)
class MethodEstimate:
    """Mean of one method, with its uncertainty for new classes of this kind and new seeds.

    Attributes:
        method: Name of the method.
        mean: Mean score.
        low: Lower end of the (1 - ``alpha``) interval of this method alone.
        high: Upper end of the interval.
        df: Degrees of freedom of the interval.
        class_error: Standard error from the choice of classes; NaN if unknown.
        replicate_error: Standard error added by reruns or searches; NaN if unknown.
        leads: True if no other method was found better.
        behind: Upper bound of the distance to the best method, simultaneous for all methods; 0 for a method
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
    """Comparison of two methods.

    Attributes:
        first: Name of the first method.
        second: Name of the second method.
        difference: Difference of their means, first - second; where lower is better, negative means better.
        low: Lower end of the simultaneous interval.
        high: Upper end. The interval of a different pair never crosses 0.
        df: Degrees of freedom of the difference.
        p_value: p-value of no difference, for this pair alone.
        p_adjusted: p-value corrected for all pairs.
        verdict: Verdict on ``first`` against ``second``; ``judge`` puts the better mean first.
        margin: Largest difference that does not matter, if given.
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
        """True if the whole interval of the difference is within the margin."""
        return self.margin is not None and -self.margin < self.low and self.high < self.margin

    def swapped(self) -> JudgedPair:
        """Return the comparison with the two methods swapped."""
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

    def sentence(
        self, *, shown: FormatNumber = format_points, unit: str = " points", directed: bool = True
    ) -> str:
        """Return the verdict as a sentence.

        Args:
            shown: Formats a number; the second argument is "+" for a signed difference.
            unit: Unit to write after a difference.
            directed: False for a metric without a better direction; the sentence then says "higher" or
                "lower".

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
class Judgment:
    """Verdicts on all methods of a table.

    Attributes:
        estimates: One per method, best mean first.
        pairs: Every pair, the better mean first, in the order of the estimates.
        alpha: Probability of any false "better" or "worse".
        margin: Largest difference that does not matter; None without a test of equivalence.
        classes: Number of classes; 0 without values per query.
        reruns: Largest number of reruns per search of any method.
        repeats: Largest number of searches of any method.
        caveats: Limits of these verdicts, one sentence each; a refusal comes first.
        refusal: Reason why no pair is judged, or "".
    """

    estimates: tuple[MethodEstimate, ...]
    pairs: tuple[JudgedPair, ...]
    alpha: float
    margin: float | None
    classes: int
    reruns: int
    repeats: int
    caveats: tuple[str, ...]
    refusal: str = ""

    @property
    def leaders(self) -> frozenset[str]:
        """Methods that may be the best: no other was found better."""
        return frozenset(estimate.method for estimate in self.estimates if estimate.leads)

    def pair(self, first: str, second: str) -> JudgedPair:
        """Return the comparison of two methods, in either order."""
        for found in self.pairs:
            if {found.first, found.second} == {first, second}:
                return found
        names = [estimate.method for estimate in self.estimates]
        wrong = first if first not in names else second
        raise UsageError(f'no comparison with "{wrong}"{did_you_mean(wrong, names)}')
