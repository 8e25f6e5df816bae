"""Models are compared by their scores of single queries, with classes as chance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from levelfield.analysis import ModelScores, compare_models
from levelfield.core.errors import UsageError

CLASSES = np.repeat(np.arange(40), 25)


def values(seed: int, *, gain: float = 0.0, class_sd: float = 0.1, seeds: int = 1) -> ModelScores:
    random = np.random.default_rng(seed)
    shared = np.random.default_rng(99).normal(0.5, 0.2, len(CLASSES))
    own = class_sd * random.normal(size=40)[CLASSES]
    rows = shared + own + gain + 0.05 * random.normal(size=(seeds, len(CLASSES)))
    return ModelScores({"map_at_r": rows})


def class_means(model: ModelScores) -> NDArray[np.float64]:
    rows = model.mean_per_query("map_at_r").reshape(40, 25)
    means: NDArray[np.float64] = rows.mean(axis=1)
    return means


def test_two_models_are_compared_by_a_paired_t_test_over_classes() -> None:
    """The oracle: for classes of one size the verdict is a paired t-test of class means."""
    models = {"a": values(1), "b": values(2, gain=0.03)}
    (pair,) = compare_models(models, classes=CLASSES).pairs
    expected = stats.ttest_rel(class_means(models["b"]), class_means(models["a"]))
    assert pair.first == "b"
    assert pair.p_adjusted == pytest.approx(expected.pvalue, rel=0.02)
    low, high = expected.confidence_interval()
    assert (pair.judged.low, pair.judged.high) == pytest.approx((low, high), rel=0.02)


def test_the_interval_of_one_model_counts_classes() -> None:
    model = values(1)
    found = compare_models({"a": model}, classes=CLASSES)
    interval = found.interval_alone("a", "map_at_r")
    expected = stats.t.interval(0.95, 39, loc=interval.mean, scale=stats.sem(class_means(model)))
    assert interval.mean - interval.half_width == pytest.approx(expected[0])
    assert found.pairs == () and found.conclusion.text.startswith("a scores ")
    assert found.conclusion.visible is None and found.detectable is None


def test_verdict_detectable_difference_and_caveats() -> None:
    found = compare_models({"a": values(1), "b": values(2, gain=0.5)}, classes=CLASSES)
    assert found.conclusion.text.startswith("Use b: it beats every other model (by ")
    assert found.conclusion.visible is not None and found.detectable is not None
    assert 1.3 < found.detectable / found.conclusion.visible < 1.6
    assert "not about training them again" in found.caveats[0]
    assert found.leaders("map_at_r") == {"b"} and list(found.means) == ["b", "a"]
    (half,) = {found.interval(name, "map_at_r").half_width for name in "ab"}
    assert half == pytest.approx(found.conclusion.visible / 2, rel=0.01)


def test_seeds_of_a_model_count_as_chance() -> None:
    """Models whose seeds vary by ten points differ less surely than the same models with steady seeds."""
    steady = {name: values(seed, seeds=4, gain=gain) for name, seed, gain in (("a", 1, 0.0), ("b", 2, 0.12))}
    luck = np.array([[-0.1], [0.1], [0.1], [-0.1]])
    shaky = {
        "a": ModelScores({"map_at_r": steady["a"].per_query["map_at_r"] + luck}),
        "b": ModelScores({"map_at_r": steady["b"].per_query["map_at_r"] - luck}),
    }
    sure, unsure = (compare_models(each, classes=CLASSES).pairs[0] for each in (steady, shaky))
    assert sure.difference == pytest.approx(unsure.difference)
    assert sure.verdict == "better" and unsure.verdict == "undecided"
    mixed = compare_models({"a": steady["a"], "b": values(2)}, classes=CLASSES)
    assert mixed.caveats == (
        "b: scored once, so the verdict is about this model, not about training it again.",
    )
    two = compare_models({"a": values(1, seeds=2), "b": values(2, seeds=2)}, classes=CLASSES)
    assert "Two seeds" in two.caveats[0]


def test_classes_and_queries_on_which_models_differ_most() -> None:
    base = np.random.default_rng(0).random(1000)
    other = base.copy()
    other[CLASSES == 7] += 0.2
    other[30] -= 0.9
    base[3] = np.nan
    found = compare_models(
        {"a": ModelScores({"map_at_r": base[None]}), "b": ModelScores({"map_at_r": other[None]})},
        classes=np.array([f"kind {label}" for label in CLASSES]),
        names=[f"{row}.jpg" for row in range(1000)],
    )
    classes = found.class_differences("b", "a")
    assert [each.name for each in classes] == ["kind 7", "kind 1"]
    assert classes[0].difference == pytest.approx(0.2) and classes[0].queries == 25
    assert classes[1].difference == pytest.approx(-0.9 / 25)
    queries = found.query_differences("b", "a", limit=26)
    assert (queries[0].row, queries[0].name, queries[0].class_name) == (30, "30.jpg", "kind 1")
    assert {each.class_name for each in queries[1:]} == {"kind 7"} and len(queries) == 26
    with pytest.raises(UsageError, match='no model "c"'):
        found.class_differences("a", "c")


def test_metrics_of_the_whole_space_have_no_classes() -> None:
    models = {
        name: ModelScores(values(seed).per_query, whole={"rho": np.array([score]), "nmi": np.array([0.5])})
        for name, seed, score in (("a", 1, 0.2), ("b", 2, np.inf))
    }
    found = compare_models(models, classes=CLASSES)
    assert found.interval_alone("b", "rho").mean == np.inf
    assert found.leaders("rho") == frozenset()
    assert found.judgments["nmi"].pairs[0].verdict == "undecided"
    assert compare_models(models, classes=CLASSES, metric="nmi").query_differences("a", "b") == []


def test_models_that_are_the_same_are_equivalent() -> None:
    found = compare_models({"a": values(1), "b": values(1)}, classes=CLASSES)
    assert found.pairs[0].verdict == "equivalent" and found.groups == [("a", "b")]
    assert "Nothing was told apart" in found.conclusion.text


def test_one_class_and_no_classes_are_named() -> None:
    models = {"a": values(1), "b": values(2, gain=0.3)}
    one = compare_models(models, classes=np.zeros(1000))
    assert one.pairs[0].verdict == "undecided" and "one class" in one.caveats[0]
    assert "no classes" in compare_models(models, classes=None).caveats[0]


def test_input_that_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UsageError, match="no model to compare"):
        compare_models({}, classes=None)
    with pytest.raises(UsageError, match='"b" has the metrics mrr, "a" has map_at_r'):
        compare_models({"a": values(1), "b": ModelScores({"mrr": np.zeros((1, 4))})}, classes=None)
    with pytest.raises(UsageError, match="was not computed"):
        compare_models({"a": values(1)}, classes=CLASSES, metric="mrr")
    with pytest.raises(UsageError, match="different numbers of queries"):
        compare_models({"a": values(1), "b": ModelScores({"map_at_r": np.zeros((1, 4))})}, classes=CLASSES)
