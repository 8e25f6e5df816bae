from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import UsageError
from levelfield.stats import cliffs_delta, cohens_d, holm

NUMBERS = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=12)


@given(NUMBERS, NUMBERS)
def test_cliffs_delta_is_what_its_definition_says(a, b):
    wins = sum(x > y for x in a for y in b)
    losses = sum(x < y for x in a for y in b)
    assert cliffs_delta(a, b) == pytest.approx((wins - losses) / (len(a) * len(b)))
    assert cliffs_delta(b, a) == pytest.approx(-cliffs_delta(a, b))


def test_cliffs_delta_agrees_with_mann_whitney():
    a, b = np.random.default_rng(0).random((2, 50))
    u = scipy.stats.mannwhitneyu(a, b).statistic
    assert cliffs_delta(a, b) == pytest.approx(2 * u / 2500 - 1)


def test_cohens_d_is_the_paired_t_over_root_n():
    a, b = np.random.default_rng(1).random((2, 40))
    t = scipy.stats.ttest_rel(a, b).statistic
    assert cohens_d(a, b) == pytest.approx(t / math.sqrt(40))


def test_cohens_d_of_a_constant_difference():
    assert cohens_d([2.0, 3.0], [1.0, 2.0]) == math.inf
    assert cohens_d([1.0, 2.0], [2.0, 3.0]) == -math.inf
    assert cohens_d([1.0, 2.0], [1.0, 2.0]) == 0


def test_effect_sizes_refuse_what_has_none():
    with pytest.raises(UsageError, match="two pairs"):
        cohens_d([1.0], [2.0])
    with pytest.raises(UsageError, match="at least one number"):
        cliffs_delta([], [1.0])
    with pytest.raises(UsageError, match="finite"):
        cliffs_delta([math.nan], [1.0])


def test_holm_textbook_example():
    # Four p-values against 0.05/4, 0.05/3, 0.05/2, 0.05/1: only the first two fall (Holm, 1979, step-down).
    adjusted = holm([0.01, 0.04, 0.03, 0.005])
    assert adjusted.tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holm_lies_between_no_correction_and_bonferronis(p_values):
    p = np.array(p_values)
    adjusted = holm(p)
    assert (adjusted >= p - 1e-12).all()
    assert (adjusted <= np.minimum(p * len(p), 1) + 1e-12).all()
    order = np.argsort(p)
    assert (np.diff(adjusted[order]) >= 0).all()


def test_holm_agrees_with_the_step_down_procedure():
    generator = np.random.default_rng(2)
    for _ in range(50):
        p = generator.random(7) * 0.05
        rejected = np.zeros(7, dtype=bool)
        for step, index in enumerate(np.argsort(p)):
            if p[index] > 0.05 / (7 - step):
                break
            rejected[index] = True
        assert ((holm(p) <= 0.05) == rejected).all()


def test_holm_refuses_what_is_no_probability():
    with pytest.raises(UsageError, match="from 0 to 1"):
        holm([0.5, 1.5])
