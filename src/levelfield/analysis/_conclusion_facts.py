"""Numbers that the sentences of a conclusion are made of."""

from __future__ import annotations

import math
from statistics import median

from levelfield.records import MetricInfo
from levelfield.stats import JudgedPair, Judgment


class Facts:
    """Methods by verdict, against each other and against the baseline."""

    def __init__(
        self,
        judgment: Judgment,
        metric_info: MetricInfo,
        baseline: str | None,
        methods: list[str],
        noun: str,
    ) -> None:
        self.info = metric_info
        self.noun = noun
        self.baseline = baseline
        self.methods = methods
        self.means = {estimate.method: estimate.mean for estimate in judgment.estimates}
        self.pairs = [pair for pair in judgment.pairs if baseline not in (pair.first, pair.second)]
        self.against = {
            (pair.first if pair.second == baseline else pair.second): (
                pair if pair.second == baseline else pair.swapped()
            )
            for pair in judgment.pairs
            if baseline in (pair.first, pair.second)
        }
        beaten = {pair.second for pair in self.pairs if pair.verdict == "better"}
        self.leaders = [name for name in methods if name not in beaten]
        self.worse = [name for name in methods if name in beaten]
        self.above = [name for name, pair in self.against.items() if pair.verdict == "better"]
        self.below = [name for name, pair in self.against.items() if pair.verdict == "worse"]
        tested = self.pairs or list(self.against.values())
        halves = [(pair.high - pair.low) / 2 for pair in tested if math.isfinite(pair.high - pair.low)]
        self.visible = median(halves) if halves else None

    @property
    def best(self) -> str:
        return self.methods[0]

    @property
    def tied(self) -> list[str]:
        return self.leaders[1:]

    @property
    def candidates(self) -> list[str]:
        """Leaders worth their cost: those better than the baseline, else those not worse than it."""
        above = [name for name in self.leaders if name in self.above]
        return above or [name for name in self.leaders if name not in self.below] or self.leaders

    @property
    def no_gain(self) -> bool:
        """True if there is a baseline and no method was found better."""
        return self.baseline is not None and not self.above

    @property
    def unit(self) -> str:
        return f" points of {self.info.label}" if self.info.unit == "percent" else f" {self.info.label}"

    def shown(self, value: float) -> str:
        """Return a number with as many digits as a reader needs."""
        return f"{self.info.scale * value:.1f}" if self.info.unit == "percent" else self.info.shown(value)

    def interval(self, pair: JudgedPair) -> tuple[str, str]:
        """Return the difference of a decided pair with its interval."""
        low, high = sorted((abs(pair.low), abs(pair.high)))
        return f"{self.shown(abs(pair.difference))}{self.unit}", f"{self.shown(low)} to {self.shown(high)}"
