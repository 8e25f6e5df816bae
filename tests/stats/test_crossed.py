"""Queries and seeds are both chance; equal methods are seldom called different."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import polygamma
from scipy.stats import ttest_ind

from levelfield.stats import crossed_p_value, half_width, holm, rerun_noise, t_interval
from levelfield.stats._crossed import _inverse_trigamma


@given(st.floats(1e-3, 1e3))
def test_inverse_trigamma(value: float) -> None:
    assert float(polygamma(1, _inverse_trigamma(value))) == pytest.approx(value, rel=1e-6)


def test_reruns_alone_of_alike_methods_are_students_test() -> None:
    one, other = [0.50, 0.52, 0.51, 0.53], [0.46, 0.48, 0.47, 0.49]
    noise = rerun_noise({"one": one, "other": other})
    assert noise is not None
    p = crossed_p_value(
        np.mean(one) - np.mean(other), queries=None, reruns=(noise.between("one", "other"), noise.df)
    )
    assert p == pytest.approx(ttest_ind(one, other).pvalue)


def test_half_width_is_that_of_the_t_interval() -> None:
    values = [1.0, 2.0, 4.0]
    assert half_width(np.var(values, ddof=1) / 3, 2) == pytest.approx(t_interval(values).half_width)


def test_a_lucky_method_is_drawn_to_the_others_and_an_unstable_one_keeps_its_own() -> None:
    generator = np.random.default_rng(0)
    scores = {str(i): list(generator.normal(0, 1.0, 3)) for i in range(8)}
    scores |= {"lucky": [0.0, 0.001, 0.002], "unstable": [-30.0, 0.0, 30.0]}
    noise = rerun_noise(scores)
    assert noise is not None
    assert noise.variances["lucky"] > 100 * np.var(scores["lucky"], ddof=1) / 3
    assert noise.variances["unstable"] == pytest.approx(np.var(scores["unstable"], ddof=1) / 3)


def test_what_never_changes_has_no_noise_and_one_rerun_has_the_typical() -> None:
    noise = rerun_noise({"a": [1.0, 2.0, 3.0], "b": [2.0], "net": [5.0]}, fixed=["net"])
    assert noise is not None and noise.variances == pytest.approx({"a": 1 / 3, "b": 1.0, "net": 0.0})
    assert rerun_noise({"a": [1.0], "b": [2.0]}) is None


def test_identical_reruns_do_not_break_the_logarithm() -> None:
    noise = rerun_noise({"a": [1.0, 1.0], "b": [2.0, 2.0], "c": [1.0, 2.0]})
    assert noise is not None and all(math.isfinite(v) for v in noise.variances.values())


def test_each_source_of_chance_raises_p() -> None:
    queries, reruns = (1e-4, 500.0), (1e-4, 10.0)
    both = crossed_p_value(0.03, queries=queries, reruns=reruns)
    assert both > crossed_p_value(0.03, queries=queries, reruns=None)
    assert both > crossed_p_value(0.03, queries=None, reruns=reruns)
    assert crossed_p_value(0.03, queries=None, reruns=None) == 1.0
    assert crossed_p_value(0.0, queries=queries, reruns=None) == 1.0
    assert crossed_p_value(0.1, queries=(0.0, 9.0), reruns=None) == 0.0


@pytest.mark.parametrize(
    ("methods", "reruns", "unstable", "limit"),
    [(10, 3, 1.0, 0.08), (10, 3, 6.0, 0.1), (10, 10, 1.0, 0.08), (3, 3, 1.0, 0.09), (3, 3, 6.0, 0.15)],
)
def test_false_alarms_are_rare(methods: int, reruns: int, unstable: float, limit: float) -> None:
    """Equal methods whose scores scatter over seeds and queries: how often is any pair called different?"""
    generator = np.random.default_rng(5)
    spread = np.full(methods, 0.5)
    spread[0] *= unstable
    over_queries = 0.15  # standard error of a difference
    repeats, alarms = 200, 0
    for _ in range(repeats):
        shared = over_queries / math.sqrt(2) * generator.normal(size=(methods, 1))
        scores = shared + spread[:, None] * generator.normal(size=(methods, reruns))
        noise = rerun_noise({str(i): list(row) for i, row in enumerate(scores)})
        assert noise is not None
        means = scores.mean(axis=1)
        p_values = [
            crossed_p_value(
                means[i] - means[j],
                queries=(over_queries**2, 5000.0),
                reruns=(noise.between(str(i), str(j)), noise.df),
            )
            for i in range(methods)
            for j in range(i)
        ]
        alarms += bool((holm(p_values) < 0.05).any())
    assert alarms / repeats <= limit


def test_a_real_difference_is_found_with_three_reruns() -> None:
    generator = np.random.default_rng(6)
    found = 0
    for _ in range(100):
        scores = {str(i): list((3.0 if i == 0 else 0.0) + 0.5 * generator.normal(size=3)) for i in range(8)}
        noise = rerun_noise(scores)
        assert noise is not None
        gap = np.mean(scores["0"]) - np.mean(scores["1"])
        p = crossed_p_value(gap, queries=(0.15**2, 5000.0), reruns=(noise.between("0", "1"), noise.df))
        found += 28 * p < 0.05  # as Holm asks of the first of 28 pairs
    assert found > 85
