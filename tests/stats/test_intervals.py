from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import UsageError
from levelfield.stats import t_interval

VALUES = st.lists(st.floats(-100, 100), min_size=2, max_size=20)


@given(VALUES, st.floats(0.5, 0.999))
def test_agrees_with_scipy(values, confidence):
    interval = t_interval(values, confidence)
    error = scipy.stats.sem(values)
    if error > 0:
        low, high = scipy.stats.t.interval(confidence, len(values) - 1, loc=np.mean(values), scale=error)
        assert interval.low == pytest.approx(low, rel=1e-7, abs=1e-9)
        assert interval.high == pytest.approx(high, rel=1e-7, abs=1e-9)


@given(VALUES, st.floats(-50, 50), st.floats(0.1, 10))
def test_moves_and_stretches_with_the_values(values, shift, scale):
    before = t_interval(values)
    after = t_interval([scale * value + shift for value in values])
    assert after.mean == pytest.approx(scale * before.mean + shift, abs=1e-8)
    assert after.half_width == pytest.approx(scale * before.half_width, abs=1e-8)


def test_one_value_has_no_width():
    interval = t_interval([0.3])
    assert interval.mean == 0.3
    assert math.isnan(interval.half_width)
    assert not interval.contains(0.3)


def test_textbook_example():
    # Ten values with mean 5 and standard deviation 1: half-width 2.262 / sqrt(10).
    values = np.random.default_rng(0).normal(size=10)
    values = 5 + (values - values.mean()) / values.std(ddof=1)
    assert t_interval(values).half_width == pytest.approx(2.262 / math.sqrt(10), abs=1e-3)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_covers_the_true_mean_as_often_as_it_says(confidence):
    samples = np.random.default_rng(7).normal(loc=3.0, scale=2.0, size=(4000, 10))
    hits = np.mean([t_interval(sample, confidence).contains(3.0) for sample in samples])
    # Three standard errors of a proportion over 4000 draws.
    assert abs(hits - confidence) < 3 * math.sqrt(confidence * (1 - confidence) / 4000)


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], [1.0, math.nan], [1.0, math.inf]])
def test_refuses_what_has_no_mean(values):
    with pytest.raises(UsageError, match="t_interval takes"):
        t_interval(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_refuses_a_confidence_that_is_not_a_fraction(confidence):
    with pytest.raises(UsageError, match="confidence"):
        t_interval([1.0, 2.0], confidence)
