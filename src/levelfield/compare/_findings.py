"""One pair of methods: the numbers, the verdict, and the sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from levelfield.records import Measure
from levelfield.stats import Interval, Pair, verdict

Verdict = Literal["better", "worse", "higher", "lower", "not distinguishable"]
PERCENT = Measure(name="score", label="score", unit="percent", higher_is_better=True)


@dataclass(frozen=True)
class Finding:
    """What is known of the difference between two methods.

    Attributes:
        first: One method.
        second: The other.
        difference: Of their mean scores, first - second.
        p_value: Of no difference, with queries and seeds both counted as chance.
        p_adjusted: The same after Holm's correction over all pairs.
        reruns: The difference with the 95% interval that the seeds alone give; None with a single rerun.
        queries: The paired tests over queries alone; None where they were not made.
        alpha: Level of the verdict.
        measure: What was measured: its direction says what is better, its unit how it is shown.

    Example:
        >>> print(Finding("new", "old", 0.02, 0.001, 0.003, reruns=Interval(0.02, 0.005, 10)).sentence)
        new is better than old by 2.00 points (p = 0.003; ± 0.50 over 10 reruns).
    """

    first: str
    second: str
    difference: float
    p_value: float
    p_adjusted: float
    reruns: Interval | None = None
    queries: Pair | None = None
    alpha: float = 0.05
    measure: Measure = PERCENT

    @property
    def verdict(self) -> Verdict:
        """What ``first`` is, against ``second``; of a measure without a direction only higher or lower."""
        direction = self.measure.higher_is_better
        found = verdict(
            -self.difference if direction is False else self.difference, self.p_adjusted, alpha=self.alpha
        )
        if direction is None and found != "not distinguishable":
            return "higher" if found == "better" else "lower"
        return found

    @property
    def sentence(self) -> str:
        """The finding in plain words; percentage points of a measure in percent."""
        facts = f"({self._facts()})"
        points = " points" if self.measure.unit == "percent" else ""
        if self.verdict == "not distinguishable":
            gap = self._shown(self.difference, "+")
            return (
                f"{self.first} and {self.second} are not distinguishable: difference {gap}{points} {facts}."
            )
        gap = self._shown(abs(self.difference))
        return f"{self.first} is {self.verdict} than {self.second} by {gap}{points} {facts}."

    def _shown(self, value: float, sign: str = "") -> str:
        return self.measure.shown(value, sign)

    def _facts(self) -> str:
        spreads = []
        if self.queries is not None:
            gap = self.queries.difference
            spreads.append(
                f"{self._shown(gap.low, '+')} to {self._shown(gap.high, '+')} over {gap.n} queries"
            )
        if self.reruns is not None:
            spreads.append(f"± {self._shown(self.reruns.half_width)} over {self.reruns.n} reruns")
        if not spreads:
            return "nothing to test it by"
        p = "p < 0.001" if self.p_adjusted < 0.001 else f"p = {self.p_adjusted:.3f}"
        effect = [] if self.queries is None else [f"d = {self.queries.d:.2f}"]
        return "; ".join([p, ", ".join(spreads), *effect])

    def as_dict(self) -> dict[str, Any]:
        """The finding for machines, as fractions; None where there is nothing."""
        queries, reruns = self.queries, self.reruns
        return {
            "first": self.first,
            "second": self.second,
            "verdict": self.verdict,
            "difference": self.difference,
            "p_value": self.p_value,
            "p_holm": self.p_adjusted,
            "low_queries": queries and queries.difference.low,
            "high_queries": queries and queries.difference.high,
            "queries": queries and queries.difference.n,
            "p_permutation": queries and queries.p_value,
            "cohens_d": queries and queries.d,
            "cliffs_delta": queries and queries.delta,
            "low_reruns": reruns and reruns.low,
            "high_reruns": reruns and reruns.high,
            "reruns": reruns and reruns.n,
            "sentence": self.sentence,
        }
