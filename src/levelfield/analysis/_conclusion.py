"""Conclusion of a comparison in two to four short sentences: which method to use, and how sure that is.

Every surface prints this text: terminal, pages, tables, notebooks, trackers. It follows from the judged pairs
alone, so it never contradicts the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from levelfield.records import MetricInfo
from levelfield.stats import JudgedPair, Judgment

NAMED = 3  # more methods than this are counted instead of named
CHEAPER = 0.8  # a method is called cheaper if it takes at most this share of the time
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Conclusion:
    """Answer of a comparison.

    Attributes:
        use: Method to use; None if there is nothing to recommend.
        tied: Other methods that were not found worse than any method, best mean first.
        worse: Methods that another method was found better than, best mean first.
        beats_baseline: Methods that were found better than the baseline.
        visible: Typical half width of an interval between two methods, as a score. Smaller differences cannot
            be seen. None if no pair was tested.
        answer: Which method to use and how it compares, one sentence each.
        notes: Cost, learning and advice, one sentence each.
    """

    use: str | None
    tied: tuple[str, ...]
    worse: tuple[str, ...]
    beats_baseline: tuple[str, ...]
    visible: float | None
    answer: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer, then the notes."""
        return (*self.answer, *self.notes)

    @property
    def text(self) -> str:
        """All sentences in one line."""
        return " ".join(self.sentences)


def conclude(
    judgment: Judgment | None,
    metric_info: MetricInfo,
    *,
    baseline: str | None = None,
    seconds: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
    advice: str = "",
    noun: str = "method",
) -> Conclusion:
    """Return the conclusion of a judgment.

    Args:
        judgment: Verdicts on all methods; None if nothing was scored.
        metric_info: Metric that the methods were judged by.
        baseline: Name of the network before training, if it is one of the methods.
        seconds: Training time of a run of each method. Among tied methods the cheapest is named.
        notes: Sentences to add before the advice, such as methods that did not learn.
        advice: What would make the result more certain. It is added if methods are tied.
        noun: Word for one of those compared, such as "model".
    """
    names = [] if judgment is None else [estimate.method for estimate in judgment.estimates]
    methods = [name for name in names if name != baseline]
    if judgment is None or not methods:
        return Conclusion(None, (), (), (), None, (f"No {noun} has a test score yet.",))
    facts = _Facts(judgment, metric_info, baseline if baseline in names else None, methods, noun)
    if metric_info.higher_is_better is None:
        text = f"{metric_info.label} has no better direction, so it recommends no {noun}."
        return Conclusion(None, (), (), (), facts.visible, (text,), tuple(notes))
    if judgment.refusal:
        return Conclusion(None, (), (), (), None, (judgment.refusal,), tuple(notes))
    further = [*_cheapest(facts, seconds or {}), *notes]
    if advice and (facts.tied or not facts.worse):
        further.append(advice)
    return Conclusion(
        use=_recommended(facts, seconds or {}),
        tied=tuple(name for name in facts.leaders if name != _recommended(facts, seconds or {})),
        worse=tuple(facts.worse),
        beats_baseline=tuple(facts.above),
        visible=facts.visible,
        answer=tuple(_first_sentences(facts)),
        notes=tuple(further),
    )


class _Facts:
    """The numbers that the sentences are made of."""

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
        halves = [(pair.high - pair.low) / 2 for pair in self.pairs if math.isfinite(pair.high - pair.low)]
        self.visible = median(halves) if halves else None

    @property
    def best(self) -> str:
        return self.methods[0]

    @property
    def tied(self) -> list[str]:
        return self.leaders[1:]

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


def _first_sentences(facts: _Facts) -> list[str]:
    count = len(facts.methods)
    if count == 1:
        found = [f"{facts.best} scores {facts.shown(facts.means[facts.best])} {facts.info.label}."]
        return [*found, *_against_baseline(facts)]
    if facts.leaders == [facts.best]:
        pair = next(pair for pair in facts.pairs if pair.first == facts.best)
        by, interval = facts.interval(pair)
        found = [
            f"Use {facts.best}: it beats every other {facts.noun} (by {by} over {pair.second}, {interval})."
        ]
        return [*found, *_against_baseline(facts)]
    if not facts.worse:
        return _nothing_told_apart(facts)
    best = f"{facts.best} ({facts.shown(facts.means[facts.best])})"
    if len(facts.tied) <= NAMED:
        others = _join([f"{name} ({facts.shown(facts.means[name])})" for name in facts.tied])
        first = f"Use {best} or {others}: between them this test sees no difference."
    else:
        first = f"Use {best} or any of {len(facts.tied)} others that were not found worse."
    behind = [facts.means[facts.best] - facts.means[name] for name in facts.worse]
    worse = _join(facts.worse) if len(facts.worse) <= NAMED else _number(len(facts.worse)).capitalize()
    verb = "is" if len(facts.worse) == 1 else "are"
    second = f"{worse} {verb} worse for sure, {_range(facts, behind)} behind."
    return [first, second, *_against_baseline(facts)]


def _nothing_told_apart(facts: _Facts) -> list[str]:
    limit = _limit(facts)
    if facts.baseline is None:
        return [f"Nothing was told apart{limit}."]
    what = _features(facts)
    if len(facts.above) == len(facts.methods):
        gains = [facts.against[name].difference for name in facts.methods]
        who = "Both" if len(facts.methods) == 2 else f"All {_number(len(facts.methods))}"
        return [
            f"{who} beat {what}, by {_range(facts, gains)}.",
            f"Between them this test sees no difference{limit}.",
        ]
    if not facts.above:
        return [f"Nothing was told apart, and nothing beat {what}{limit}.", *_worse_than_baseline(facts)]
    return [f"Nothing was told apart{limit}.", *_against_baseline(facts)]


def _limit(facts: _Facts) -> str:
    if facts.visible is None:
        return ""
    return f"; it cannot see differences below about {facts.shown(facts.visible)}{facts.unit}"


def _against_baseline(facts: _Facts) -> list[str]:
    if facts.baseline is None:
        return []
    what, count = _features(facts), len(facts.methods)
    if not facts.above:
        it = facts.best if count == 1 else "Nothing"
        found = f"{it} was not found better than {what}." if count == 1 else f"{it} beat {what}."
    elif len(facts.above) == count:
        gains = [facts.against[name].difference for name in facts.methods]
        it = "It beats" if count == 1 else "Both beat" if count == 2 else f"All {_number(count)} beat"
        found = f"{it} {what}, by {_range(facts, gains)}."
    elif len(facts.above) <= NAMED:
        found = f"Only {_join(facts.above)} beat{'s' if len(facts.above) == 1 else ''} {what}."
    else:
        found = f"{len(facts.above)} of {count} {facts.noun}s beat {what}."
    return [found, *_worse_than_baseline(facts)]


def _worse_than_baseline(facts: _Facts) -> list[str]:
    if not facts.below:
        return []
    who = _join(facts.below) if len(facts.below) <= NAMED else _number(len(facts.below)).capitalize()
    return [f"{who} {'is' if len(facts.below) == 1 else 'are'} worse than {_features(facts)}."]


def _features(facts: _Facts) -> str:
    return (
        f"the {facts.baseline} network" if facts.baseline == "untrained" else f"the {facts.baseline} features"
    )


def _recommended(facts: _Facts, seconds: Mapping[str, float]) -> str:
    """Return the best mean, or the cheapest of the tied methods if nothing was told apart."""
    return facts.best if facts.worse else _cheaper(facts, seconds) or facts.best


def _cheaper(facts: _Facts, seconds: Mapping[str, float]) -> str | None:
    """Return the tied method that is clearly cheaper to train than the best; None if there is none."""
    known = [name for name in facts.leaders if name in seconds]
    if len(facts.leaders) < 2 or facts.best not in known:
        return None
    first = min(known, key=lambda name: seconds[name])
    return first if seconds[first] <= CHEAPER * seconds[facts.best] else None


def _cheapest(facts: _Facts, seconds: Mapping[str, float]) -> list[str]:
    cheaper = _cheaper(facts, seconds)
    if cheaper is None:
        return []
    times = f"{_seconds(seconds[cheaper])} a run, {facts.best} {_seconds(seconds[facts.best])}"
    if facts.worse:
        return [f"The cheapest of them to train is {cheaper} ({times})."]
    return [f"Take the cheapest to train: {cheaper} ({times})."]


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s" if value < 600 else f"{value / 60:.0f} min"


def _range(facts: _Facts, values: Sequence[float]) -> str:
    low, high = (facts.shown(value) for value in (min(map(abs, values)), max(map(abs, values))))
    return f"{low}{facts.unit}" if low == high else f"{low} to {high}{facts.unit}"


def _join(names: Sequence[str]) -> str:
    """Return names as English text.

    Example:
        >>> _join(["a", "b", "c"])
        'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _number(count: int) -> str:
    return WORDS[count] if count < len(WORDS) else str(count)
