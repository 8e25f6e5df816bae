from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield.errors import UsageError
from levelfield.stats import paired_bootstrap, paired_permutation

PAIRS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=9)


def split(pairs):
    return [a for a, _ in pairs], [b for _, b in pairs]


@given(PAIRS)
@settings(max_examples=50, deadline=None)
def test_the_exact_permutation_test_agrees_with_scipy(pairs):
    a, b = split(pairs)
    expected = scipy.stats.permutation_test(
        (a, b), lambda x, y, axis: np.sum(x - y, axis=axis), permutation_type="samples", vectorized=True
    ).pvalue
    # Scipy doubles the smaller tail and has another tolerance for ties; the law is symmetric.
    assert paired_permutation(a, b) == pytest.approx(expected, abs=2 ** (1 - len(pairs)) + 1e-12)


def test_fishers_darwin_data():
    # Fisher (1935): fifteen pairs of Darwin's plants in eighths of an inch; 1726 of 32768 sign patterns
    # give a sum as extreme as 314.
    differences = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert paired_permutation(differences, [0] * 15, permutations=2**15) == 1726 / 32768


@given(PAIRS)
@settings(max_examples=30, deadline=None)
def test_swapping_the_methods_changes_only_the_sign(pairs):
    a, b = split(pairs)
    assert paired_permutation(a, b) == paired_permutation(b, a)
    forward, backward = paired_bootstrap(a, b, resamples=200), paired_bootstrap(b, a, resamples=200)
    assert forward.mean == pytest.approx(-backward.mean)
    assert forward.low == pytest.approx(-backward.high)
    assert forward.high == pytest.approx(-backward.low)


def test_methods_that_do_not_differ_have_p_one():
    values = np.random.default_rng(0).random(500)
    assert paired_permutation(values, values) == 1.0
    result = paired_bootstrap(values, values)
    assert (result.mean, result.low, result.high) == (0, 0, 0)


def test_random_flips_agree_with_all_flips():
    generator = np.random.default_rng(1)
    a = generator.normal(0.6, 1, 12)
    b = generator.normal(0.0, 1, 12)
    exact = paired_permutation(a, b, permutations=2**12)
    drawn = paired_permutation(a, b, permutations=4000)
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4000))


def test_permutation_p_values_are_uniform_when_nothing_differs():
    generator = np.random.default_rng(2)
    p_values = [paired_permutation(generator.normal(size=10), generator.normal(size=10)) for _ in range(400)]
    assert scipy.stats.kstest(p_values, "uniform").pvalue > 0.01


def test_the_bootstrap_interval_covers_the_true_difference():
    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(400):
        shared = generator.normal(size=60)
        a = shared + 0.3 + generator.normal(scale=0.5, size=60)
        b = shared + generator.normal(scale=0.5, size=60)
        result = paired_bootstrap(a, b, resamples=400)
        hits += result.low <= 0.3 <= result.high
    assert 0.90 < hits / 400 < 0.985


def test_the_bootstrap_agrees_with_the_normal_interval_for_many_queries():
    generator = np.random.default_rng(4)
    a, b = generator.random(4000), generator.random(4000)
    result = paired_bootstrap(a, b, resamples=4000)
    error = (a - b).std() / np.sqrt(4000)
    assert result.low == pytest.approx(result.mean - 1.96 * error, abs=0.1 * error)
    assert result.high == pytest.approx(result.mean + 1.96 * error, abs=0.1 * error)


def test_the_same_seed_gives_the_same_bits():
    a, b = np.random.default_rng(5).random((2, 100))
    assert paired_bootstrap(a, b, seed=1) == paired_bootstrap(a, b, seed=1)
    assert paired_bootstrap(a, b, seed=1) != paired_bootstrap(a, b, seed=2)
    assert paired_permutation(a, b, seed=1) == paired_permutation(a, b, seed=1)


def test_blocks_do_not_change_the_answer(monkeypatch):
    a, b = np.random.default_rng(6).random((2, 100))
    whole = paired_bootstrap(a, b), paired_permutation(a, b)
    monkeypatch.setattr("levelfield.stats._resample.BLOCK", 1000)
    parts = paired_bootstrap(a, b), paired_permutation(a, b)
    assert parts[0].low == pytest.approx(whole[0].low, abs=1e-12)
    assert parts[1] == whole[1]


@pytest.mark.parametrize("function", [paired_bootstrap, paired_permutation])
class TestRefusals:
    @pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([], []), ([[1.0]], [[1.0]])])
    def test_what_is_not_paired(self, function, a, b):
        with pytest.raises(UsageError, match="same length"):
            function(a, b)

    def test_nan(self, function):
        with pytest.raises(UsageError, match="finite"):
            function([np.nan, 1.0], [0.0, 1.0])

    def test_too_few_draws(self, function):
        name = "resamples" if function is paired_bootstrap else "permutations"
        with pytest.raises(UsageError, match=f"{name} must be at least 100"):
            function([1.0, 2.0], [0.0, 1.0], **{name: 10})
