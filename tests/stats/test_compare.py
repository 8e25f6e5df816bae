from __future__ import annotations

import numpy as np
import pytest

from levelfield.errors import UsageError
from levelfield.stats import compare_pairs, holm, paired_bootstrap, paired_permutation


@pytest.fixture
def values():
    generator = np.random.default_rng(0)
    hard = generator.random(300)
    return {
        "good": hard + 0.3 + 0.1 * generator.normal(size=300),
        "also good": hard + 0.3 + 0.1 * generator.normal(size=300),
        "bad": hard + 0.1 * generator.normal(size=300),
    }


def test_each_pair_gets_its_verdict(values):
    found = {(pair.first, pair.second): pair.verdict for pair in compare_pairs(values, resamples=500)}
    assert found == {
        ("good", "also good"): "not distinguishable",
        ("good", "bad"): "better",
        ("also good", "bad"): "better",
    }
    reverse = compare_pairs({"bad": values["bad"], "good": values["good"]}, resamples=500)[0]
    assert reverse.verdict == "worse"
    assert reverse.d < 0
    assert reverse.delta < 0


def test_sentences_are_plain(values):
    same, better, _ = compare_pairs(values, resamples=500)
    assert same.sentence.startswith("good and also good are not distinguishable: difference ")
    assert better.sentence.startswith("good is better than bad by 0.3")
    assert better.sentence.endswith("(p < 0.001, n = 300).")
    worse = compare_pairs({"bad": values["bad"], "good": values["good"]}, resamples=500)[0]
    assert worse.sentence.startswith("bad is worse than good by 0.3")
    assert worse.difference.high < 0


def test_sharing_the_draws_changes_nothing(values):
    pairs = compare_pairs(values, resamples=500, permutations=500, seed=3)
    for pair in pairs:
        a, b = values[pair.first], values[pair.second]
        alone = paired_bootstrap(a, b, resamples=500, seed=3)
        assert pair.difference.low == pytest.approx(alone.low, abs=1e-12)
        assert pair.difference.high == pytest.approx(alone.high, abs=1e-12)
        assert pair.p_value == paired_permutation(a, b, permutations=500, seed=3)
    assert [pair.p_adjusted for pair in pairs] == holm([pair.p_value for pair in pairs]).tolist()


def test_one_query_that_differs_by_a_hair_says_nothing():
    # Every flip gives the same size of sum: p must be 1 although rounding differs between flips.
    first = np.random.default_rng(1).random(5000)
    second = first.copy()
    second[7] += 1e-3
    assert compare_pairs({"a": first, "b": second}, resamples=100, permutations=200)[0].p_value == 1.0


def test_no_difference_is_found_among_copies_of_noise():
    generator = np.random.default_rng(2)
    wrong = 0
    for _ in range(60):
        noise = {str(i): generator.normal(size=40) for i in range(4)}
        pairs = compare_pairs(noise, resamples=100, permutations=400)
        wrong += any(pair.verdict != "not distinguishable" for pair in pairs)
    assert wrong <= 8  # 5% of 60 is 3; 8 is beyond the 99th percentile of the binomial


def test_against_one_method_only(values):
    pairs = compare_pairs(values, against="bad", resamples=500)
    assert [(pair.first, pair.second) for pair in pairs] == [("good", "bad"), ("also good", "bad")]
    assert {pair.verdict for pair in pairs} == {"better"}


def test_ten_reruns_tell_two_methods_apart_but_not_91_pairs():
    generator = np.random.default_rng(3)
    reruns = {str(i): 0.1 * i + 0.01 * generator.normal(size=10) for i in range(14)}
    assert {pair.verdict for pair in compare_pairs(reruns, resamples=100)} == {"not distinguishable"}
    assert {p.verdict for p in compare_pairs(reruns, against="13", resamples=100)} == {"worse"}


def test_refusals(values):
    with pytest.raises(UsageError, match='no method "goood" to compare with; did you mean "good"'):
        compare_pairs(values, against="goood")
    with pytest.raises(UsageError, match="at least two methods"):
        compare_pairs({"good": values["good"]})
    with pytest.raises(UsageError, match="same length"):
        compare_pairs({"good": values["good"], "bad": values["bad"][:-1]})
    with pytest.raises(UsageError, match="alpha"):
        compare_pairs(values, alpha=1.5)
