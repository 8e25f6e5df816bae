"""The conclusion says which method to use, as the judged pairs have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.analysis import analyze, conclude, conclude_experiment
from levelfield.records import MetricInfo
from levelfield.stats import JudgedPair, Judgment, MethodEstimate, PairVerdict

MAP = MetricInfo(name="map_at_r", label="MAP@R", unit="percent", higher_is_better=True)
Writer = Callable[..., Path]


def judged(means: Mapping[str, float], half: float) -> Judgment:
    """Return a judgment whose pairs differ if their means are more than ``half`` apart."""
    names = sorted(means, key=lambda name: -means[name])
    pairs = []
    for first, second in combinations(names, 2):
        gap = means[first] - means[second]
        found: PairVerdict = "better" if gap > half else "undecided"
        low = max(gap - half, 0.0) if found == "better" else gap - half
        pairs.append(JudgedPair(first, second, gap, low, gap + half, 9.0, 0.1, 0.1, found))
    beaten = {pair.second for pair in pairs if pair.verdict == "better"}
    estimates = [
        MethodEstimate(name, means[name], 0.0, 1.0, 9.0, 0.0, 0.0, name not in beaten, 0.0) for name in names
    ]
    return Judgment(tuple(estimates), tuple(pairs), 0.05, None, 100, 3, 1, ())


def text(means: Mapping[str, float], half: float, **options: Any) -> str:
    return conclude(judged(means, half), MAP, **options).text


def test_one_winner() -> None:
    means = {"contrastive": 0.20, "triplet": 0.166, "arcface": 0.15, "pretrained": 0.1}
    assert text(means, 0.03, baseline="pretrained") == (
        "Use contrastive: it beats every other method (by 3.4 points of MAP@R over triplet, 0.4 to 6.4). "
        "All three beat the pretrained features, by 5.0 to 10.0 points of MAP@R."
    )


def test_nothing_told_apart_and_no_gain() -> None:
    means = {"contrastive": 0.20, "triplet": 0.19, "pretrained": 0.18}
    assert text(means, 0.028, baseline="pretrained", advice="More test classes would help most.") == (
        "Nothing was told apart, and nothing beat the pretrained features; this test cannot see differences "
        "below about 2.8 points of MAP@R. More test classes would help most."
    )
    assert "0.0 points" not in text(means, 0.0, baseline="pretrained")
    assert text(means, 0.028, baseline="pretrained", seconds={"contrastive": 9.0, "triplet": 3.0}).endswith(
        "The cheapest is not to train: use the pretrained features."
    )


def test_all_beat_the_baseline_and_the_cheapest_is_named() -> None:
    means = {"triplet": 0.205, "contrastive": 0.20, "pretrained": 0.15}
    found = conclude(
        judged(means, 0.014), MAP, baseline="pretrained", seconds={"triplet": 30.0, "contrastive": 12.0}
    )
    assert found.text == (
        "Both beat the pretrained features, by 5.0 to 5.5 points of MAP@R. Between them nothing was told "
        "apart; this test cannot see differences below about 1.4 points of MAP@R. Take the cheapest to "
        "train: contrastive (12 s a run, triplet 30 s)."
    )
    assert (found.use, found.tied) == ("contrastive", ("triplet",))


@pytest.mark.parametrize(
    ("seconds", "end"),
    [
        ({"triplet": 30.0, "contrastive": 28.0}, "Take triplet: no other is clearly cheaper to train."),
        ({"triplet": 3.0, "contrastive": 28.0}, "Take triplet: no other is clearly cheaper to train."),
        ({}, "Take triplet, the best mean."),
    ],
)
def test_a_method_is_named_also_if_none_is_cheaper(seconds: dict[str, float], end: str) -> None:
    found = conclude(judged({"triplet": 0.205, "contrastive": 0.2}, 0.014), MAP, seconds=seconds)
    assert found.use == "triplet" and found.text.endswith(end)


def test_the_cheapest_is_not_named_if_it_did_not_beat_the_baseline() -> None:
    means = {"triplet": 0.205, "contrastive": 0.195, "pretrained": 0.19}
    seconds = {"triplet": 30.0, "contrastive": 3.0}
    found = conclude(judged(means, 0.012), MAP, baseline="pretrained", seconds=seconds)
    assert found.beats_baseline == ("triplet",) and found.use == "triplet"
    assert found.text.endswith(
        "Only triplet beats the pretrained features. Take triplet: no other is clearly cheaper to train."
    )


def test_what_did_not_beat_the_baseline_is_not_recommended_first() -> None:
    means = {"pretrained": 0.3, "a": 0.20, "b": 0.199, "c": 0.18}
    assert text(means, 0.01, baseline="pretrained") == (
        "All three are worse than the pretrained features. Of the methods, use a (20.0) or b (19.9): between "
        "them this test sees no difference. c is worse for sure, 2.0 points of MAP@R behind. "
        "Differences below about 1.0 points cannot be seen."
    )
    assert text({"pretrained": 0.3, "a": 0.2}, 0.01, baseline="pretrained") == (
        "a scores 20.0 MAP@R. a is worse than the pretrained features."
    )
    won = text({"pretrained": 0.2, "a": 0.195, "b": 0.1}, 0.01, baseline="pretrained")
    assert won.startswith("Nothing beat the pretrained features. b is worse than the pretrained features.")
    assert "Of the methods, use a: it beats every other method (by 9.5 points" in won


def test_some_tied_and_some_worse() -> None:
    means = {"a": 0.20, "b": 0.199, "c": 0.18, "d": 0.17}
    assert text(means | {"e": 0.198}, 0.01).startswith("Use a (20.0), b (19.9) or e (19.8): between them ")
    assert text(means, 0.01) == (
        "Use a (20.0) or b (19.9): between them this test sees no difference. "
        "c and d are worse for sure, 2.0 to 3.0 points of MAP@R behind. "
        "Differences below about 1.0 points cannot be seen."
    )


def test_many_tied_are_counted() -> None:
    means = {f"m{number}": 0.2 - 0.0001 * number for number in range(8)} | {"x": 0.1, "pretrained": 0.15}
    found = conclude(judged(means, 0.02), MAP, baseline="pretrained")
    assert found.text == (
        "Use m0 (20.0) or any of 7 others that were not found worse. x is worse for sure, 10.0 points of "
        "MAP@R behind. 8 of 9 methods beat the pretrained features. x is worse than the pretrained features. "
        "Differences below about 2.0 points cannot be seen."
    )
    assert found.worse == ("x",) and len(found.beats_baseline) == 8


def test_the_best_method_is_known_also_if_the_baseline_beats_all(write_experiment: Writer) -> None:
    root = write_experiment(means={"a": 0.3, "b": 0.1, "pretrained": 0.5}, baseline="pretrained")
    assert lf.ExperimentResult(root).best == ("a",)


def test_one_method_and_none() -> None:
    assert text({"a": 0.2, "pretrained": 0.199}, 0.01, baseline="pretrained") == (
        "a scores 20.0 MAP@R. a was not found better than the pretrained features; this test cannot see "
        "differences below about 1.0 points of MAP@R."
    )
    assert text({"a": 0.2, "untrained": 0.1}, 0.01, baseline="untrained") == (
        "a scores 20.0 MAP@R. It beats the untrained network, by 10.0 points of MAP@R."
    )
    assert conclude(None, MAP).text == "No method has a test score yet."


def test_a_metric_without_direction_recommends_nothing() -> None:
    plain = MetricInfo(name="x", label="x")
    found = conclude(judged({"a": 0.2, "b": 0.1}, 0.01), plain)
    assert found.use is None and "recommends no method" in found.text


def test_a_refusal_is_the_answer() -> None:
    refused = replace(judged({"a": 0.2, "b": 0.1}, 0.5), refusal="No verdict: too many searches went badly.")
    found = conclude(refused, MAP, advice="More test classes would help most.")
    assert found.use is None and found.text == "No verdict: too many searches went badly."


def test_lower_may_be_better(write_experiment: Writer) -> None:
    info = {"name": "alignment", "label": "alignment", "unit": "", "higher_is_better": False}
    means = {"contrastive": 0.6, "triplet": 0.4, "untrained": 0.9}
    root = write_experiment(means=means, metrics=("alignment",), metric_infos=[info])
    found = conclude_experiment(analyze(root, metric="alignment"))
    assert found.use == "triplet" and found.worse == ("contrastive",)
    assert found.beats_baseline == ("triplet", "contrastive")


@pytest.mark.parametrize(
    ("epochs", "note"),
    [
        ([0, 0, 0, 2], "triplet kept its starting point in most runs: training did not help."),
        ([1000, 1000, 1000, 4], "triplet was still improving at the end of most runs."),
        ([10, 0, 1000, 4], ""),
    ],
)
def test_methods_that_did_not_learn_are_named(write_experiment: Writer, epochs: list[int], note: str) -> None:
    root = write_experiment(
        means={"contrastive": 0.5, "triplet": 0.5, "untrained": 0.1}, epochs={"triplet": epochs}
    )
    found = conclude_experiment(analyze(root))
    assert (note in found.sentences) if note else not any("most runs" in line for line in found.sentences)


def test_all_methods_that_need_more_training_are_one_word(write_experiment: Writer) -> None:
    root = write_experiment(
        means={"contrastive": 0.5, "triplet": 0.5, "untrained": 0.1},
        epochs={"triplet": [1000, 1000], "contrastive": [1000, 1000]},
    )
    assert "All were still improving at the end of most runs." in conclude_experiment(analyze(root)).notes
