"""Result for one pair of methods: numbers, verdict and sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from levelfield.records import MetricInfo
from levelfield.stats import JudgedPair

Verdict = Literal["better", "worse", "higher", "lower", "equivalent", "undecided"]
PERCENT = MetricInfo(name="score", label="score", unit="percent", higher_is_better=True)


@dataclass(frozen=True)
class PairResult:
    """Difference between two methods, with its verdict.

    Attributes:
        judged: Difference, interval and p-values.
        classes: Number of query classes in the test; 0 if there are no values per query.
        reruns: Smaller number of reruns of the two methods. Untrained networks do not count.
        metric_info: Metric that is compared; gives direction and unit.

    Example:
        >>> pair = JudgedPair("new", "old", 0.02, 0.01, 0.03, 9.0, 0.001, 0.003, "better")
        >>> print(PairResult(pair, classes=100, reruns=10).sentence)
        new is better than old by 2.00 points [1.00, 3.00] (p = 0.003).
    """

    judged: JudgedPair
    classes: int
    reruns: int
    metric_info: MetricInfo = PERCENT

    @property
    def first(self) -> str:
        """First method."""
        return self.judged.first

    @property
    def second(self) -> str:
        """Second method."""
        return self.judged.second

    @property
    def difference(self) -> float:
        """Difference of the mean scores, first - second."""
        return self.judged.difference

    @property
    def p_adjusted(self) -> float:
        """p-value of no difference, corrected for all pairs of the experiment."""
        return self.judged.p_adjusted

    @property
    def verdict(self) -> Verdict:
        """Verdict on ``first`` against ``second``; "higher" or "lower" for metrics without a direction."""
        if self.metric_info.higher_is_better is None and self.judged.verdict in ("better", "worse"):
            return "higher" if self.difference > 0 else "lower"
        return self.judged.verdict

    @property
    def sentence(self) -> str:
        """Verdict as a sentence; in percentage points for metrics in percent."""
        return self.judged.sentence(
            shown=self.metric_info.shown,
            unit=" points" if self.metric_info.unit == "percent" else "",
            directed=self.metric_info.higher_is_better is not None,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON. Scores are fractions; the interval is None if it was not tested."""
        tested = math.isfinite(self.judged.low)
        return {
            "first": self.first,
            "second": self.second,
            "verdict": self.verdict,
            "difference": self.difference,
            "low": self.judged.low if tested else None,
            "high": self.judged.high if tested else None,
            "df": self.judged.df if tested else None,
            "p_value": self.judged.p_value,
            "p_adjusted": self.p_adjusted,
            "margin": self.judged.margin,
            "classes": self.classes,
            "reruns": self.reruns,
            "sentence": self.sentence,
        }
