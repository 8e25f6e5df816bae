"""One pair of methods: the numbers, the verdict, and the sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from levelfield.records import Measure
from levelfield.stats import JudgedPair

Verdict = Literal["better", "worse", "higher", "lower", "equivalent", "undecided"]
PERCENT = Measure(name="score", label="score", unit="percent", higher_is_better=True)


@dataclass(frozen=True)
class Finding:
    """What is known of the difference between two methods.

    Attributes:
        pair: The difference, its interval and its p-value.
        classes: How many classes of queries counted as chance; 0 where there are no values per query.
        reruns: The smaller number of reruns of the two; a network that is never trained does not count.
        measure: What was measured: its direction says what is better, its unit how it is shown.

    Example:
        >>> pair = JudgedPair("new", "old", 0.02, 0.01, 0.03, 9.0, 0.001, 0.003, "better")
        >>> print(Finding(pair, classes=100, reruns=10).sentence)
        new is better than old by 2.00 points [1.00, 3.00] (p = 0.003).
    """

    pair: JudgedPair
    classes: int
    reruns: int
    measure: Measure = PERCENT

    @property
    def first(self) -> str:
        """One method."""
        return self.pair.first

    @property
    def second(self) -> str:
        """The other."""
        return self.pair.second

    @property
    def difference(self) -> float:
        """Of their mean scores, first - second."""
        return self.pair.difference

    @property
    def p_adjusted(self) -> float:
        """Of no difference, corrected for all pairs of the experiment."""
        return self.pair.p_adjusted

    @property
    def verdict(self) -> Verdict:
        """What ``first`` is, against ``second``; of a measure without a direction only higher or lower."""
        if self.measure.higher_is_better is None and self.pair.verdict in ("better", "worse"):
            return "higher" if self.difference > 0 else "lower"
        return self.pair.verdict

    @property
    def sentence(self) -> str:
        """The finding in plain words; percentage points of a measure in percent."""
        return self.pair.sentence(
            shown=self.measure.shown,
            unit=" points" if self.measure.unit == "percent" else "",
            directed=self.measure.higher_is_better is not None,
        )

    def as_dict(self) -> dict[str, Any]:
        """The finding for machines, as fractions; None where there is nothing."""
        tested = math.isfinite(self.pair.low)
        return {
            "first": self.first,
            "second": self.second,
            "verdict": self.verdict,
            "difference": self.difference,
            "low": self.pair.low if tested else None,
            "high": self.pair.high if tested else None,
            "df": self.pair.df if tested else None,
            "p_value": self.pair.p_value,
            "p_adjusted": self.p_adjusted,
            "margin": self.pair.margin,
            "classes": self.classes,
            "reruns": self.reruns,
            "sentence": self.sentence,
        }
