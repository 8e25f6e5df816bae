"""Conclusion of a comparison in two to four short sentences: which method to use, and how sure that is.

Every surface prints this text: terminal, pages, tables, notebooks, trackers. It follows from the judged pairs
alone, so it never contradicts the intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levelfield.analysis._conclusion_facts import Facts
from levelfield.records import MetricInfo
from levelfield.stats import Judgment

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
        seconds: Training time of a run of each method. Among tied methods the cheapest is named. None
            if those compared are not trained.
        notes: Sentences to add before the advice, such as methods that did not learn.
        advice: What would make the result more certain. It is added if methods are tied.
        noun: Word for one of those compared, such as "model".
    """
    names = [] if judgment is None else [estimate.method for estimate in judgment.estimates]
    methods = [name for name in names if name != baseline]
    if judgment is None or not methods:
        return Conclusion(None, (), (), (), None, (f"No {noun} has a test score yet.",))
    facts = Facts(judgment, metric_info, baseline if baseline in names else None, methods, noun)
    if metric_info.higher_is_better is None:
        text = f"{metric_info.label} has no better direction, so it recommends no {noun}."
        return Conclusion(None, (), (), (), facts.visible, (text,), tuple(notes))
    if judgment.refusal:
        return Conclusion(None, (), (), (), None, (judgment.refusal,), tuple(notes))
    further = [*_seen(facts), *([] if seconds is None else _cheapest(facts, seconds)), *notes]
    if advice and (facts.tied or not facts.worse):
        further.append(advice)
    use = _recommended(facts, seconds or {})
    return Conclusion(
        use=use,
        tied=tuple(name for name in facts.leaders if name != use),
        worse=tuple(facts.worse),
        beats_baseline=tuple(facts.above),
        visible=facts.visible,
        answer=tuple(_first_sentences(facts)),
        notes=tuple(further),
    )


def _first_sentences(facts: Facts) -> list[str]:
    best = f"{facts.best} scores {facts.shown(facts.means[facts.best])} {facts.info.label}."
    if len(facts.methods) == 1:
        return [best, *_against_baseline(facts)]
    if not facts.worse:
        return _nothing_told_apart(facts)
    if facts.no_gain:
        found = _best_first(facts, "Of the methods, use")
        return [*_against_baseline(facts), *found]
    return [*_best_first(facts, "Use"), *_against_baseline(facts)]


def _best_first(facts: Facts, use: str) -> list[str]:
    if facts.leaders == [facts.best]:
        pair = next(pair for pair in facts.pairs if pair.first == facts.best)
        by, interval = facts.interval(pair)
        return [
            f"{use} {facts.best}: it beats every other {facts.noun} (by {by} over {pair.second}, {interval})."
        ]
    best, *others = [f"{name} ({facts.shown(facts.means[name])})" for name in facts.leaders]
    if len(others) <= NAMED:
        first = f"{use} {_join([best, *others], 'or')}: between them this test sees no difference."
    else:
        first = f"{use} {best} or any of {len(facts.tied)} others that were not found worse."
    behind = [facts.means[facts.best] - facts.means[name] for name in facts.worse]
    worse = _join(facts.worse) if len(facts.worse) <= NAMED else _number(len(facts.worse)).capitalize()
    verb = "is" if len(facts.worse) == 1 else "are"
    return [first, f"{worse} {verb} worse for sure, {_range(facts, behind)} behind."]


def _nothing_told_apart(facts: Facts) -> list[str]:
    limit = _limit(facts)
    if facts.baseline is None:
        return [f"Nothing was told apart{limit}."]
    what = _features(facts)
    if len(facts.above) == len(facts.methods):
        gains = [facts.against[name].difference for name in facts.methods]
        who = "Both" if len(facts.methods) == 2 else f"All {_number(len(facts.methods))}"
        return [
            f"{who} beat {what}, by {_range(facts, gains)}.",
            f"Between them nothing was told apart{limit}.",
        ]
    if not facts.above:
        return [f"Nothing was told apart, and nothing beat {what}{limit}.", *_worse_than_baseline(facts)]
    return [f"Nothing was told apart{limit}.", *_against_baseline(facts)]


def _limit(facts: Facts) -> str:
    if facts.visible is None or facts.shown(facts.visible) == facts.shown(0.0):
        return ""
    return f"; this test cannot see differences below about {facts.shown(facts.visible)}{facts.unit}"


def _against_baseline(facts: Facts) -> list[str]:
    if facts.baseline is None:
        return []
    what, count = _features(facts), len(facts.methods)
    if not facts.above:
        found = f"Nothing beat {what}."
        if count == len(facts.below):
            return _worse_than_baseline(facts)
        if count == 1:
            found = f"{facts.best} was not found better than {what}{_limit(facts)}."
    elif len(facts.above) == count:
        gains = [facts.against[name].difference for name in facts.methods]
        it = "It beats" if count == 1 else "Both beat" if count == 2 else f"All {_number(count)} beat"
        found = f"{it} {what}, by {_range(facts, gains)}."
    elif len(facts.above) <= NAMED:
        found = f"Only {_join(facts.above)} beat{'s' if len(facts.above) == 1 else ''} {what}."
    else:
        found = f"{len(facts.above)} of {count} {facts.noun}s beat {what}."
    return [found, *_worse_than_baseline(facts)]


def _worse_than_baseline(facts: Facts) -> list[str]:
    count = len(facts.below)
    if not count:
        return []
    who = _join(facts.below) if count <= NAMED else _number(count).capitalize()
    if 1 < count == len(facts.methods):
        who = "Both" if count == 2 else f"All {_number(count)}"
    return [f"{who} {'is' if count == 1 else 'are'} worse than {_features(facts)}."]


def _features(facts: Facts) -> str:
    return (
        f"the {facts.baseline} network" if facts.baseline == "untrained" else f"the {facts.baseline} features"
    )


def _seen(facts: Facts) -> list[str]:
    """Return how small a difference between tied methods could be seen, unless the answer says it."""
    if facts.visible is None or not (facts.tied and facts.worse):
        return []
    unit = " points" if facts.info.unit == "percent" else facts.unit
    return [f"Differences below about {facts.shown(facts.visible)}{unit} cannot be seen."]


def _recommended(facts: Facts, seconds: Mapping[str, float]) -> str:
    """Return the best mean, or the cheapest of the tied methods if nothing was told apart."""
    if facts.worse:
        return facts.best
    return _cheaper(facts, seconds) or facts.candidates[0]


def _cheaper(facts: Facts, seconds: Mapping[str, float]) -> str | None:
    """Return the tied method that is clearly cheaper to train than the best; None if there is none."""
    known = [name for name in facts.candidates if name in seconds]
    if len(facts.leaders) < 2 or not known or facts.best not in seconds:
        return None
    first = min(known, key=lambda name: seconds[name])
    return first if seconds[first] <= CHEAPER * seconds[facts.best] else None


def _cheapest(facts: Facts, seconds: Mapping[str, float]) -> list[str]:
    """Return which of the tied methods to take by its cost, in one sentence."""
    if len(facts.leaders) < 2:
        return []
    if facts.no_gain and not facts.worse:
        pretrained = facts.baseline == "pretrained"
        return ["The cheapest is not to train: use the pretrained features."] if pretrained else []
    cheaper = _cheaper(facts, seconds)
    if cheaper is not None:
        times = f"{_seconds(seconds[cheaper])} a run, {facts.best} {_seconds(seconds[facts.best])}"
        if facts.worse:
            return [f"The cheapest of them to train is {cheaper} ({times})."]
        return [f"Take the cheapest to train: {cheaper} ({times})."]
    if facts.worse or set(facts.leaders) - set(seconds):
        return [] if facts.worse else [f"Take {facts.candidates[0]}, the best mean."]
    return [f"Take {facts.candidates[0]}: no other is clearly cheaper to train."]


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s" if value < 600 else f"{value / 60:.0f} min"


def _range(facts: Facts, values: Sequence[float]) -> str:
    low, high = (facts.shown(value) for value in (min(map(abs, values)), max(map(abs, values))))
    return f"{low}{facts.unit}" if low == high else f"{low} to {high}{facts.unit}"


def _join(names: Sequence[str], word: str = "and") -> str:
    """Return names as English text.

    Example:
        >>> _join(["a", "b", "c"])
        'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


def _number(count: int) -> str:
    return WORDS[count] if count < len(WORDS) else str(count)
