"""One pair of methods: the numbers, the verdict, and the sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from levelfield.stats import Interval, Pair, Verdict, verdict


@dataclass(frozen=True)
class Finding:
    """What is known of the difference between two methods.

    Attributes:
        first: One method.
        second: The other.
        difference: Of their mean scores, first - second, from -1 to 1.
        p_value: Of no difference, with queries and seeds both counted as chance.
        p_adjusted: The same after Holm's correction over all pairs.
        reruns: The difference with the 95% interval that the seeds alone give; None with a single rerun.
        queries: The paired tests over queries alone; None where they were not made.
        alpha: Level of the verdict.

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

    @property
    def verdict(self) -> Verdict:
        """What ``first`` is, against ``second``."""
        return verdict(self.difference, self.p_adjusted, alpha=self.alpha)

    @property
    def sentence(self) -> str:
        """The finding in plain words, in percentage points."""
        facts = f"({self._facts()})"
        if self.verdict == "not distinguishable":
            gap = f"{100 * self.difference:+.2f}"
            return f"{self.first} and {self.second} are not distinguishable: difference {gap} points {facts}."
        gap = f"{100 * abs(self.difference):.2f}"
        return f"{self.first} is {self.verdict} than {self.second} by {gap} points {facts}."

    def _facts(self) -> str:
        spreads = []
        if self.queries is not None:
            gap = self.queries.difference
            spreads.append(f"{100 * gap.low:+.2f} to {100 * gap.high:+.2f} over {gap.n} queries")
        if self.reruns is not None:
            spreads.append(f"± {100 * self.reruns.half_width:.2f} over {self.reruns.n} reruns")
        if not spreads:
            return "nothing to test it by"
        p = "p < 0.001" if self.p_adjusted < 0.001 else f"p = {self.p_adjusted:.3f}"
        effect = [] if self.queries is None else [f"d = {self.queries.d:.2f}"]
        return "; ".join([p, ", ".join(spreads), *effect])

    def row(self) -> dict[str, Any]:
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
