from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from levelfield.core.errors import UsageError
from levelfield.reports.figures.rank_diagram import critical_difference_diagram
from levelfield.stats import friedman, ranks, tournament

# Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets" (JMLR 2006), Table 6. It prints
# 0.975 twice for voting but ranks the two 2 and 3: they differ in a digit that is not printed.
DEMSAR_METHODS = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")
DEMSAR = {
    "adult": (0.763, 0.768, 0.771, 0.798),
    "breast cancer": (0.599, 0.591, 0.590, 0.569),
    "breast cancer wisconsin": (0.954, 0.971, 0.968, 0.967),
    "cmc": (0.628, 0.661, 0.654, 0.657),
    "ionosphere": (0.882, 0.888, 0.886, 0.898),
    "iris": (0.936, 0.931, 0.916, 0.931),
    "liver disorders": (0.661, 0.668, 0.609, 0.685),
    "lung cancer": (0.583, 0.583, 0.563, 0.625),
    "lymphography": (0.775, 0.838, 0.866, 0.875),
    "mushroom": (1.000, 1.000, 1.000, 1.000),
    "primary tumor": (0.940, 0.962, 0.965, 0.962),
    "rheum": (0.619, 0.666, 0.614, 0.669),
    "voting": (0.972, 0.981, 0.9751, 0.975),
    "wine": (0.957, 0.978, 0.946, 0.970),
}
CASES = {case: dict(zip(DEMSAR_METHODS, row, strict=True)) for case, row in DEMSAR.items()}


@given(arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.integers(0, 4)))
def test_ranks_agree_with_scipy(scores):
    assert (ranks(scores) == scipy.stats.rankdata(-scores, axis=1)).all()


def test_demsars_mean_ranks():
    found = friedman(CASES).mean_ranks
    expected = {"C4.5+m+cf": 1.964, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5": 3.143}
    assert found == pytest.approx(expected, abs=1e-3)
    assert list(found) == list(expected)


def test_demsars_statistics():
    result = friedman(CASES)
    n, k = 14, 4
    # The paper's formula ignores ties: 9.28, and F = 3.69.
    uncorrected = (
        12 * n / (k * (k + 1)) * (sum(r**2 for r in result.mean_ranks.values()) - k * (k + 1) ** 2 / 4)
    )
    assert uncorrected == pytest.approx(9.28, abs=0.01)
    assert (n - 1) * uncorrected / (n * (k - 1) - uncorrected) == pytest.approx(3.69, abs=0.01)
    # Ours corrects for ties, like scipy's, and is a little larger.
    scipys = scipy.stats.friedmanchisquare(*np.array(list(DEMSAR.values())).T)
    assert result.statistic == pytest.approx(scipys.statistic)
    assert result.p_value == pytest.approx(scipys.pvalue)
    assert uncorrected < result.statistic < 1.15 * uncorrected


def test_demsars_critical_difference():
    # "the critical value for four classifiers is 2.569 (2.291) and CD is 1.25 (1.12)" at 0.05 (0.10)
    assert friedman(CASES).critical_difference == pytest.approx(1.25, abs=0.01)
    assert friedman(CASES, alpha=0.10).critical_difference == pytest.approx(1.12, abs=0.01)


@pytest.mark.parametrize(
    ("methods", "q05", "q10"),
    [(3, 2.343, 2.052), (4, 2.569, 2.291), (5, 2.728, 2.459), (7, 2.949, 2.693), (10, 3.164, 2.920)],
)
def test_nemenyis_critical_values_of_demsars_table_5(methods, q05, q10):
    cases = {str(i): {str(j): float(j) for j in range(methods)} for i in range(6)}
    error = math.sqrt(methods * (methods + 1) / 36)
    assert friedman(cases).critical_difference / error == pytest.approx(q05, abs=2e-3)
    assert friedman(cases, alpha=0.1).critical_difference / error == pytest.approx(q10, abs=2e-3)


def test_p_values_and_critical_difference_say_the_same():
    result = friedman(CASES, alpha=0.10)
    for (one, other), p in result.p_values.items():
        gap = abs(result.mean_ranks[one] - result.mean_ranks[other])
        assert (p < 0.10) == (gap > result.critical_difference)
    # At 0.10 only C4.5 against the two best (1.143 and 1.179) exceeds 1.12.
    assert result.groups == [("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5")]


def test_methods_that_always_tie_are_one_group():
    result = friedman({str(i): {"a": 1.0, "b": 1.0, "c": 1.0} for i in range(4)})
    assert result.statistic == 0
    assert result.p_value == 1
    assert result.groups == [("a", "b", "c")]


def test_a_perfect_order_is_as_sure_as_it_gets():
    result = friedman({str(i): {"a": 3.0, "b": 2.0, "c": 1.0} for i in range(30)})
    assert result.f_statistic == math.inf
    assert result.f_p_value == 0
    assert result.groups == []


@pytest.mark.parametrize(
    "cases",
    [{"one": {"a": 1.0, "b": 2.0, "c": 3.0}}, {"one": {"a": 1.0, "b": 2.0}, "two": {"a": 1.0, "b": 2.0}}],
)
def test_friedman_refuses_too_little(cases):
    with pytest.raises(UsageError, match="at least 2 cases and 3 methods"):
        friedman(cases)


def test_tournament_sums_ranks():
    cases = {"x": {"a": 0.9, "b": 0.5, "c": 0.5}, "y": {"a": 0.1, "b": 0.3, "c": 0.2}}
    standings = tournament(cases)
    assert [(s.method, s.total) for s in standings] == [("b", 3.5), ("a", 4.0), ("c", 4.5)]
    assert standings[0].std == pytest.approx(np.std([2.5, 1.0], ddof=1))
    assert math.isnan(tournament({"x": cases["x"]})[0].std)


@given(st.integers(2, 6), st.integers(1, 5), st.integers(0, 1000))
def test_all_ranks_of_a_tournament_sum_to_the_same(methods, count, seed):
    generator = np.random.default_rng(seed)
    cases = {str(i): {str(j): float(generator.integers(0, 3)) for j in range(methods)} for i in range(count)}
    assert sum(s.total for s in tournament(cases)) == count * methods * (methods + 1) / 2


def test_cases_must_hold_the_same_methods():
    with pytest.raises(UsageError, match="two differs in c"):
        tournament({"one": {"a": 1.0, "b": 2.0}, "two": {"a": 1.0, "b": 2.0, "c": 3.0}})
    with pytest.raises(UsageError, match="at least one case"):
        tournament({})
    with pytest.raises(UsageError, match="finite"):
        tournament({"one": {"a": 1.0, "b": math.nan}})


def test_the_diagram_shows_every_method_and_every_group():
    result = friedman(CASES, alpha=0.10)
    figure = critical_difference_diagram(result)
    words = " ".join(text.get_text() for text in figure.axes[0].texts)
    for method in DEMSAR_METHODS:
        assert f"{method} (" in words
    bars = [line for line in figure.axes[0].lines if line.get_color() == "tab:red"]
    assert len(bars) == len(result.groups)
