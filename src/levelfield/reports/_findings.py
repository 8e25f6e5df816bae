"""One pair of methods: the numbers, the verdict, and the sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from levelfield.stats import Interval, Pair, Verdict


@dataclass(frozen=True)
class Finding:
    """What is known of the difference between two methods.

    Attributes:
        first: One method.
        second: The other.
        difference: Of their mean scores, first - second, from -1 to 1.
        reruns: Mean and 95% t-interval of the paired differences of reruns; None with a single one.
        queries: The paired tests over queries; None where there are no values per query.
        alpha: Level of the test over queries.

    Example:
        >>> print(Finding("new", "old", 0.02, reruns=Interval(0.02, 0.005, 10)).sentence)
        new is better than old by 2.00 points (over 10 reruns +2.00 ± 0.50).
    """

    first: str
    second: str
    difference: float
    reruns: Interval | None = None
    queries: Pair | None = None
    alpha: float = 0.05

    @property
    def verdict(self) -> Verdict:
        """What ``first`` is, against ``second``: different only if queries and reruns both say so."""
        told = self.queries is not None or self.reruns is not None
        if not told or not (self.holds_over_queries and self.holds_over_reruns) or self.difference == 0:
            return "not distinguishable"
        return "better" if self.difference > 0 else "worse"

    @property
    def holds_over_queries(self) -> bool:
        """Whether the corrected test rejects; true where there is nothing to test."""
        return self.queries is None or self.queries.p_adjusted < self.alpha

    @property
    def holds_over_reruns(self) -> bool:
        """Whether the interval excludes zero; true where there is none."""
        return self.reruns is None or not self.reruns.contains(0.0)

    @property
    def sentence(self) -> str:
        """The finding in plain words, in percentage points."""
        facts = f"({'; '.join(self._facts())})" if self._facts() else "(nothing to test it by)"
        if self.verdict == "not distinguishable":
            gap = f"{100 * self.difference:+.2f}"
            return f"{self.first} and {self.second} are not distinguishable: difference {gap} points {facts}."
        gap = f"{100 * abs(self.difference):.2f}"
        return f"{self.first} is {self.verdict} than {self.second} by {gap} points {facts}."

    def _facts(self) -> list[str]:
        facts = []
        if self.queries is not None:
            gap = self.queries.difference
            p = self.queries.p_adjusted
            shown = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
            interval = f"{100 * gap.low:+.2f} to {100 * gap.high:+.2f}"
            facts.append(f"over {gap.n} queries {interval}, {shown}, d = {self.queries.d:.2f}")
        if self.reruns is not None:
            spread = f"{100 * self.reruns.mean:+.2f} ± {100 * self.reruns.half_width:.2f}"
            facts.append(f"over {self.reruns.n} reruns {spread}")
        return facts

    def row(self) -> dict[str, Any]:
        """The finding for machines, as fractions; None where there is nothing."""
        queries, reruns = self.queries, self.reruns
        return {
            "first": self.first,
            "second": self.second,
            "verdict": self.verdict,
            "difference": self.difference,
            "low_queries": queries and queries.difference.low,
            "high_queries": queries and queries.difference.high,
            "queries": queries and queries.difference.n,
            "p_value": queries and queries.p_value,
            "p_holm": queries and queries.p_adjusted,
            "cohens_d": queries and queries.d,
            "cliffs_delta": queries and queries.delta,
            "low_reruns": reruns and reruns.low,
            "high_reruns": reruns and reruns.high,
            "reruns": reruns and reruns.n,
            "sentence": self.sentence,
        }
