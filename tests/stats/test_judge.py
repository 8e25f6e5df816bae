"""Verdicts keep their error rates under chance in classes, seeds and searches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import studentized_range, ttest_1samp, ttest_rel
from tests.oracles.score_worlds import class_means, likely

from levelfield.core.errors import UsageError
from levelfield.stats import ScoreTable, judge, rerun_table, score_table
from levelfield.stats._difference_variance import difference_variance
from levelfield.stats._simultaneous import Errors, simultaneous


def table_of(values, **options) -> ScoreTable:
    return score_table({str(m): part for m, part in enumerate(values)}, classes=None, **options)


def found(judgment) -> bool:
    return any(pair.verdict in ("better", "worse") for pair in judgment.pairs)


# --- against known results ---------------------------------------------------------------------------------


def test_variance_is_that_of_the_two_way_analysis():
    generator = np.random.default_rng(0)
    values = class_means(generator, methods=2, reruns=6, classes=20, seed=1.0)
    differences = values[0, 0] - values[1, 0]  # reruns x classes
    reruns, classes = differences.shape
    grand = differences.mean()
    by_rerun, by_class = differences.mean(axis=1), differences.mean(axis=0)
    of_reruns = classes * sum((mean - grand) ** 2 for mean in by_rerun) / (reruns - 1)
    of_classes = reruns * sum((mean - grand) ** 2 for mean in by_class) / (classes - 1)
    rest = sum(
        (differences[r, c] - by_rerun[r] - by_class[c] + grand) ** 2
        for r in range(reruns)
        for c in range(classes)
    ) / ((reruns - 1) * (classes - 1))
    noise = difference_variance(table_of(values), np.array([0]), np.array([1]))
    assert noise.variance[0] == pytest.approx((of_reruns + of_classes - rest) / (reruns * classes))
    assert 5 < noise.df[0] < 24


def test_reruns_alone_are_the_paired_t_test():
    one, other = [0.50, 0.52, 0.51, 0.55], [0.46, 0.49, 0.47, 0.50]
    pair = judge(rerun_table({"one": one, "other": other})).pairs[0]
    expected = ttest_rel(one, other)
    assert pair.p_value == pytest.approx(expected.pvalue, rel=0.02)
    assert pair.p_adjusted == pytest.approx(expected.pvalue, rel=0.1)  # counted in 100,000 draws
    interval = expected.confidence_interval()
    assert [pair.low, pair.high] == pytest.approx([interval.low, interval.high], rel=0.02)


def test_one_rerun_is_the_t_test_over_classes_and_says_that_seeds_are_not_counted():
    values = class_means(np.random.default_rng(1), methods=2, reruns=1)
    judgment = judge(table_of(values))
    first, second = int(judgment.pairs[0].first), int(judgment.pairs[0].second)
    expected = ttest_1samp(values[first, 0, 0] - values[second, 0, 0], 0)
    assert judgment.pairs[0].p_value == pytest.approx(expected.pvalue, rel=0.01)
    assert judgment.pairs[0].df == pytest.approx(59, rel=0.1)
    assert any("trained once" in caveat for caveat in judgment.caveats)
    assert any("searched once" in caveat for caveat in judgment.caveats)


def test_the_largest_of_independent_means_is_tukeys():
    i, j = np.triu_indices(6, 1)
    errors = Errors(np.eye(6), np.inf, None, np.zeros(6))
    found = simultaneous(np.zeros(15), errors, i, j, alpha=0.05, draws=40_000, seed=0)
    assert found.half == pytest.approx(studentized_range.ppf(0.95, 6, 1e5), rel=0.01)


def test_classes_of_one_size_have_one_degree_less_than_their_number_and_a_giant_takes_many():
    even = judge(table_of(class_means(np.random.default_rng(2), methods=2, reruns=1, classes=30)))
    assert even.pairs[0].df == pytest.approx(29, rel=0.1)
    sizes = np.array([200] + [10] * 29)
    member = np.repeat(np.arange(30), sizes)
    values = np.random.default_rng(3).standard_normal((2, 1, len(member)))
    table = score_table({"a": values[0], "b": values[1]}, classes=member)
    assert judge(table).pairs[0].df < 10


# --- invariances -------------------------------------------------------------------------------------------


def test_asking_every_query_ten_times_adds_no_certainty():
    # Version 0.1 counted ten copies of a query as ten times the evidence.
    values = class_means(np.random.default_rng(4), methods=3, reruns=4)[:, 0]
    once = judge(score_table(dict(zip("abc", values, strict=True)), classes=np.arange(60)))
    copies = {name: np.repeat(part, 10, axis=1) for name, part in zip("abc", values, strict=True)}
    often = judge(score_table(copies, classes=np.repeat(np.arange(60), 10)))
    fooled = judge(score_table(copies, classes=None))
    for a, b, c in zip(once.pairs, often.pairs, fooled.pairs, strict=True):
        assert b.p_value == pytest.approx(a.p_value)
        assert [b.low, b.high] == pytest.approx([a.low, a.high])
        assert c.high - c.low < a.high - a.low


def test_the_order_of_methods_and_the_unit_do_not_matter():
    values = class_means(np.random.default_rng(5), methods=4, reruns=3)
    straight, backwards = judge(table_of(values)), judge(table_of(values[::-1]))
    names = {str(m): str(3 - m) for m in range(4)}
    for pair in straight.pairs:
        other = backwards.pair(names[pair.first], names[pair.second])
        assert other.p_value == pytest.approx(pair.p_value)
        assert other.p_adjusted == pytest.approx(pair.p_adjusted, abs=0.02)
    scaled = judge(table_of(values / 1000))
    for pair, small in zip(straight.pairs, scaled.pairs, strict=True):
        assert small.p_adjusted == pytest.approx(pair.p_adjusted)


def test_seeds_that_move_all_methods_alike_do_not_blur_their_difference():
    generator = np.random.default_rng(6)
    values = class_means(generator, methods=3, reruns=5)
    shared = 5 * generator.standard_normal((1, 1, 5, 1))
    for pair, moved in zip(
        judge(table_of(values)).pairs, judge(table_of(values + shared)).pairs, strict=True
    ):
        assert moved.p_value == pytest.approx(pair.p_value, rel=0.1, abs=0.01)
        assert moved.high - moved.low == pytest.approx(pair.high - pair.low, rel=0.1)


def test_a_search_with_its_reruns_is_one_replicate_and_reruns_bound_its_variance():
    values = class_means(np.random.default_rng(7), methods=4, reruns=4, repeats=3, search=1.0)
    whole = judge(table_of(values))
    assert (whole.repeats, whole.reruns) == (3, 4)
    assert not any("searched once" in caveat for caveat in whole.caveats)
    # three searches that agree by luck, although their reruns do not
    generator = np.random.default_rng(1)
    lucky = rerun_table({name: _agreeing(generator, 3, 4) for name in "abcd"})
    calm = rerun_table({name: 0.01 * _agreeing(generator, 3, 4) for name in "abcd"})
    width, least = (float(np.mean([p.high - p.low for p in judge(t).pairs])) for t in (lucky, calm))
    assert width > 50 * least and width > 1.0


def _agreeing(generator, searches: int, reruns: int):
    """Return reruns that differ, of searches with equal means."""
    values = generator.standard_normal((searches, reruns))
    values -= values.mean(axis=1, keepdims=True)
    return values / values.std(axis=1, ddof=1, keepdims=True) + 1e-4 * np.arange(searches)[:, None]


def test_failed_reruns_are_as_if_never_made():
    values = class_means(np.random.default_rng(8), methods=3, reruns=5)[:, 0]
    short = {"a": values[0], "b": values[1, :4], "c": values[2]}
    failed = {"a": values[0], "b": values[1].copy(), "c": values[2]}
    failed["b"][4] = np.nan
    assert judge(score_table(short, classes=None)) == judge(score_table(failed, classes=None))


# --- edge cases --------------------------------------------------------------------------------------------


def test_identical_methods_disturb_nobody():
    values = class_means(np.random.default_rng(9), methods=3, reruns=4)[:, 0]
    values[0] += 3
    scores = {"a": values[0], "b": values[1], "c": values[2], "copy": values[1]}
    judgment = judge(score_table(scores, classes=None), equivalence=1.0)
    same = judgment.pair("b", "copy")
    assert (same.difference, same.p_adjusted, same.verdict) == (0.0, 1.0, "equivalent")
    assert judgment.pair("a", "copy").verdict == "better"
    assert judgment.leaders == {"a"}


def test_a_fixed_network_has_no_luck_of_the_seed():
    values = class_means(np.random.default_rng(10), methods=3, reruns=6, seed=2.0, correlation=0.95)[:, 0]
    scores = {"net": values[0, :1], "a": values[1], "b": values[2]}
    judgment = judge(score_table(scores, classes=None, fixed=["net"]))
    errors = {estimate.method: estimate.replicate_error for estimate in judgment.estimates}
    assert errors["net"] == 0.0 and errors["a"] > 0.3
    # shared seeds cancel between two trained methods, not against an untrained network
    width = {frozenset((p.first, p.second)): p.high - p.low for p in judgment.pairs}
    assert width[frozenset("ab")] < width[frozenset(("a", "net"))]


def test_two_fixed_networks_without_queries_cannot_be_told_apart():
    pair = judge(rerun_table({"x": [0.5], "y": [0.6]}, fixed=["x", "y"]), equivalence=0.5).pairs[0]
    assert (pair.verdict, pair.p_adjusted, pair.low, pair.high) == ("undecided", 1.0, -np.inf, np.inf)
    assert "nothing to test it by" in pair.sentence()
    mixed = judge(rerun_table({"x": [0.5], "y": [0.6], "z": [0.1, 0.11, 0.1]}, fixed=["x", "y"]))
    assert mixed.pair("x", "y").verdict == "undecided"
    assert mixed.pair("x", "z").verdict == "better"


def test_methods_with_unequal_reruns_pay_for_seeds_they_do_not_share():
    values = class_means(np.random.default_rng(11), methods=4, reruns=9, seed=3.0, correlation=0.9)[:, 0]
    same = score_table({"a": values[0], "b": values[1], "c": values[2]}, classes=None)
    fewer = score_table({"a": values[0], "b": values[1, :3], "c": values[2]}, classes=None)
    first, second = np.array([0]), np.array([1])
    assert (
        difference_variance(fewer, first, second).variance
        > 1.5 * difference_variance(same, first, second).variance
    )


def test_one_method_gets_its_interval():
    judgment = judge(rerun_table({"a": [0.5, 0.6, 0.7]}))
    assert judgment.pairs == () and judgment.leaders == {"a"}
    assert judgment.estimates[0].high - judgment.estimates[0].low == pytest.approx(2 * 0.2484, abs=1e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rerun_table({}), "at least one method"),
        (lambda: rerun_table({"a": [np.nan]}), '"a" has no scored rerun'),
        (lambda: rerun_table({"a": [np.inf, 1.0]}), "infinity"),
        (lambda: rerun_table({"a": [1.0, 2.0]}, fixed=["b"]), 'unknown method "b"'),
        (lambda: score_table({"a": [[1.0, 2.0]]}, classes=[1]), "1 classes for 2 queries"),
        (
            lambda: score_table({"a": [[1.0]], "b": [[1.0, 2.0]]}, classes=None),
            "different numbers of queries",
        ),
        (
            lambda: score_table({"a": [[np.nan, 1.0]], "b": [[1.0, np.nan]]}, classes=None),
            "no query was scored",
        ),
        (lambda: judge(rerun_table({"a": [1.0, 2.0]}), alpha=1.0), "alpha"),
        (lambda: judge(rerun_table({"a": [1.0, 2.0]}), equivalence=0.0), "above 0"),
        (lambda: judge(rerun_table({"a": [1.0, 2.0], "b": [1.0, 2.0]})).pair("a", "x"), '"x"'),
    ],
)
def test_bad_input_is_one_clear_line(make, message):
    with pytest.raises(UsageError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


# --- sentences ---------------------------------------------------------------------------------------------


def test_verdicts_intervals_and_leaders_never_contradict_each_other():
    generator = np.random.default_rng(12)
    for _ in range(20):
        values = class_means(generator, methods=6, reruns=4) / 100
        values += generator.choice([0.0, 0.01, 0.02], 6)[:, None, None, None]
        judgment = judge(table_of(values), equivalence=0.008, draws=1000)
        beaten = set()
        for pair in judgment.pairs:
            assert pair.low <= pair.difference <= pair.high
            if pair.verdict == "better":
                assert pair.low >= 0 and pair.p_adjusted < 0.05
                beaten.add(pair.second)
            elif pair.verdict == "equivalent":
                assert pair.low > -0.008 and pair.high < 0.008
            assert pair.p_adjusted >= pair.p_value - 1e-12
        assert judgment.leaders == {e.method for e in judgment.estimates} - beaten
        for estimate in judgment.estimates:
            assert (estimate.behind == 0) == (judgment.leaders == {estimate.method})


def test_sentences_say_different_equivalent_or_undecided():
    generator = np.random.default_rng(13)
    hard, noise = generator.random((1, 400)), lambda: 0.05 * generator.normal(size=(6, 400))
    scores = {"new": hard + 0.03 + noise(), "old": hard + noise(), "twin": hard + noise()}
    table = score_table(scores, classes=np.arange(400) // 10)
    within = judge(table, equivalence=0.02)
    assert within.pair("new", "old").sentence().startswith("new is better than old by 2.94 points [")
    assert " are equivalent within 2.00 points: difference " in within.pair("old", "twin").sentence()
    assert ": undecided, difference " in judge(table).pair("old", "twin").sentence()
    assert "less than the 20.00 that matter" in judge(table, equivalence=0.2).pair("new", "old").sentence()


def test_where_less_is_better_the_same_is_found_the_other_way_round():
    values = class_means(np.random.default_rng(16), methods=4, reruns=4) + np.arange(4)[:, None, None, None]
    more, less = judge(table_of(values)), judge(table_of(-values), higher_is_better=False)
    assert less.leaders == more.leaders and [e.method for e in less.estimates] == [
        e.method for e in more.estimates
    ]
    for pair, other in zip(more.pairs, less.pairs, strict=True):
        assert (other.first, other.verdict) == (pair.first, pair.verdict)
        assert other.p_adjusted == pytest.approx(pair.p_adjusted, rel=0.1, abs=1e-3)
        assert [other.low, other.high] == pytest.approx([-pair.high, -pair.low], rel=0.02, abs=0.02)
    behind = [e.behind for e in more.estimates]
    assert [e.behind for e in less.estimates] == pytest.approx(behind, rel=0.02, abs=0.02)
    assert " is lower than " in less.pairs[0].sentence(directed=False)


# --- error rates, by short simulations; benchmarks/statistics/error_rates.py has long ones -----------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("methods", "repeats", "reruns", "spreads", "trials"),
    [
        (2, 1, 3, {"own": 0.2, "correlation": 0.0}, 300),
        (2, 1, 10, {"own": 1.0}, 300),
        (5, 1, 3, {"own": 1.0}, 300),
        (5, 1, 3, {"own": 0.0, "correlation": 0.0}, 300),
        (5, 3, 2, {"own": 0.2, "search": 0.4}, 300),
        (14, 1, 3, {"own": 0.2}, 150),
        (14, 1, 10, {"own": 1.0}, 150),
    ],
)
def test_false_alarms_and_coverage(methods, repeats, reruns, spreads, trials):
    """Equal methods: any pair is called different in 1 to 6% of experiments, means are covered in 95%."""
    generator = np.random.default_rng(methods)
    alarms = covered = 0
    for trial in range(trials):
        values = class_means(generator, methods=methods, repeats=repeats, reruns=reruns, **spreads)
        judgment = judge(table_of(values), draws=500, seed=trial)
        alarms += found(judgment)
        first = next(estimate for estimate in judgment.estimates if estimate.method == "0")
        covered += first.low <= 0 <= first.high
    assert likely(0.01, trials)[0] <= alarms <= likely(0.06, trials)[1]
    assert likely(0.94, trials)[0] <= covered <= likely(0.96, trials)[1]


@pytest.mark.slow
def test_the_best_is_among_the_leaders_and_equal_methods_are_all_leaders():
    generator = np.random.default_rng(14)
    missing, lost, trials = 0, 0, 150
    for trial in range(trials):
        values = class_means(generator, methods=8, reruns=3)
        lost += len(judge(table_of(values), draws=500, seed=trial).leaders) < 8
        values[0] += 0.3
        missing += "0" not in judge(table_of(values), draws=500, seed=trial).leaders
    assert lost <= likely(0.06, trials)[1]
    assert missing <= likely(0.05, trials)[1]


@pytest.mark.slow
def test_equivalence_is_seldom_false():
    """Two methods that differ by exactly the margin are called equivalent in at most 5%."""
    generator = np.random.default_rng(15)
    false, trials = 0, 200
    for trial in range(trials):
        values = class_means(generator, methods=2, reruns=8, own=0.2)
        values[0] += 0.5
        pair = judge(table_of(values), equivalence=0.5, draws=2000, seed=trial).pairs[0]
        false += pair.negligible
    assert 0 < false <= likely(0.05, trials)[1]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(30, 30), (30, 30, 30), (30,) * 5, (450, *(5,) * 10)], ids=str)
def test_few_classes_or_a_huge_one_raise_no_alarms(sizes: tuple[int, ...]) -> None:
    """Five equal methods: a few classes that agree by luck used to be called different in 15 to 56%."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    alarms = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        values = {
            str(method): generator.normal(0.5, 0.05, len(sizes))[labels]
            + generator.normal(0, 0.01, (5, 1))
            + generator.normal(0, 0.2, (5, len(labels)))
            for method in range(5)
        }
        alarms += any(
            p.verdict == "better" for p in judge(score_table(values, classes=labels), draws=2000).pairs
        )
    assert alarms <= 6, "5% of 60 are 3"


def test_two_reruns_are_said_to_be_few() -> None:
    generator = np.random.default_rng(0)
    for count, said in ((2, True), (3, False)):
        values = {name: generator.random((count, 40)) for name in "ab"}
        caveats = judge(score_table(values, classes=np.arange(40) // 4)).caveats
        assert any("two reruns" in line for line in caveats) is said


def test_the_order_of_methods_changes_nothing() -> None:
    """A table in another order gets the same verdicts, intervals and p-values, bit by bit."""
    rng = np.random.default_rng(3)
    values = {str(k): rng.normal(0.001 * k, 0.02, (3, 40)) for k in range(8)}
    turned = dict(reversed(values.items()))
    one, other = (judge(score_table(each, classes=np.arange(40)), draws=2000) for each in (values, turned))
    assert one == other
