"""Intervals, correlations, and the reported recall of an approximate index."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from levelfield.core.errors import UsageError
from levelfield.metrics import correlation, evaluate
from levelfield.metrics._scores import class_intervals


def sample(n=400, classes=20, noise=1.0):
    random = np.random.default_rng(0)
    labels = np.arange(n) % classes
    return random.normal(size=(classes, 8))[labels] + noise * random.normal(size=(n, 8)), labels


def test_scores_are_a_mapping_in_the_order_asked():
    scores = evaluate(*sample(), metrics=("nmi", "map_at_r", "rho", "precision_at_1"))
    assert list(scores) == ["nmi", "map_at_r", "rho", "precision_at_1"]
    assert len(scores) == 4
    assert scores.per_query == {}
    assert json.loads(json.dumps(scores.as_dict()))["queries"] == 400


def test_intervals_hold_the_score_and_shrink_with_more_classes():
    few, many = (evaluate(*sample(900, classes), intervals=True) for classes in (10, 90))
    for scores in (few, many):
        low, high = scores.intervals["map_at_r"]
        assert low < scores["map_at_r"] < high
    widths = [np.diff(scores.intervals["map_at_r"])[0] for scores in (few, many)]
    assert widths[1] < 0.6 * widths[0]


def test_intervals_cover_the_truth_with_correlated_queries():
    """30 classes of 40 queries, most of the variance between classes: an interval over queries would fail."""
    random = np.random.default_rng(0)
    classes = np.arange(1200) % 30
    covered = over_queries = 0
    for _ in range(300):
        values = random.normal(size=30)[classes] + random.normal(size=1200)
        low, high = class_intervals({"x": values}, classes)["x"]
        covered += low <= 0 <= high
        over_queries += abs(values.mean()) < 1.96 * values.std() / np.sqrt(1200)
    assert 0.91 < covered / 300 < 0.985
    assert over_queries / 300 < 0.6


def test_intervals_leave_out_what_was_not_scored():
    values = {"x": np.array([1.0, np.nan, 1.0])}
    assert class_intervals(values, np.array([0, 1, 2]))["x"] == (1.0, 1.0)
    assert class_intervals(values, np.zeros(3)) == {}, "one class says nothing about others"
    assert class_intervals({}, np.zeros(0)) == {}


def test_the_old_name_of_intervals_works_with_a_warning():
    with pytest.warns(FutureWarning, match="bootstrap is now called intervals"):
        old = evaluate(*sample(), bootstrap=200)
    assert old.intervals == evaluate(*sample(), intervals=True).intervals


def test_correlation_is_numpys():
    random = np.random.default_rng(0)
    table = {"a": random.normal(size=30), "b": random.normal(size=30), "c": random.normal(size=30)}
    found = correlation({name: values.tolist() for name, values in table.items()})
    np.testing.assert_allclose(found.matrix, np.corrcoef(list(table.values())))
    assert found.runs == 30


def test_correlation_over_runs_keeps_the_metrics_they_share():
    runs = [{"a": 1.0, "b": 1.0, "x": 0.0}, {"b": 3.0, "a": 2.0}, {"a": 3.0, "b": 4.0}]
    found = correlation(runs, kind="spearman")
    assert found.names == ("a", "b")
    assert found.between("a", "b") == pytest.approx(1.0)


def test_a_metric_that_never_changes_correlates_with_nothing():
    found = correlation([{"a": 0.3, "b": 1}, {"a": 0.3, "b": 2}, {"a": 0.3, "b": 4}])
    assert np.isnan(found.between("a", "b"))


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ([], {}, "no metric in common"),
        ([{"a": 1}, {"b": 2}], {}, "no metric in common"),
        ([{"a": 1}], {}, "at least 2 runs"),
        ([{"a": 1}, {"a": float("inf")}], {}, '"a" holds NaN or infinity'),
        ({"a": [1, 2], "b": [1]}, {}, "differ in length"),
        ([{"a": 1}, {"a": 2}], {"kind": "kendall"}, "unknown kind"),
    ],
)
def test_a_table_without_sense_is_refused(table, options, message):
    with pytest.raises(UsageError, match=message):
        correlation(table, **options)


def test_progress_callback_is_called():
    seen = []
    evaluate(*sample(), progress=lambda done, total: seen.append((done, total)), memory=400 * 4 * 100)
    assert seen[-1] == (400, 400)
    assert len(seen) > 1


faiss_metrics = ("precision_at_1", "map_at_r", "recall_at_4")


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("exclude_self", [True, False])
def test_an_index_that_misses_nothing_gives_the_exact_scores(distance, exclude_self):
    pytest.importorskip("faiss")
    rows, labels = sample(900, noise=0.5)
    options = {"metrics": faiss_metrics, "distance": distance, "per_query": True}
    if not exclude_self:
        options |= {"gallery": rows[300:], "gallery_labels": labels[300:]}
        rows, labels = rows[:300], labels[:300]
    exact = evaluate(rows, labels, **options)
    flat = evaluate(rows, labels, index="Flat", **options)
    assert flat.index_recall is not None and flat.index_recall > 0.9999
    assert exact.index_recall is None
    for name in faiss_metrics:
        np.testing.assert_allclose(flat.per_query[name], exact.per_query[name])


def test_an_index_that_misses_items_says_so():
    pytest.importorskip("faiss")
    rows, labels = sample(900)
    scores = evaluate(rows, labels, index="IVF16,Flat;nprobe=1")
    assert scores.index_recall is not None and scores.index_recall < 0.95
    assert f"finds {scores.index_recall:.2%} of the true nearest" in scores.notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index": "Nonsense"}, 'faiss cannot build the index "Nonsense"'),
        ({"index": "Flat", "metrics": ("map",)}, "map needs the whole ranking"),
    ],
)
def test_what_an_index_cannot_do_is_refused(options, message):
    pytest.importorskip("faiss")
    with pytest.raises(UsageError, match=message):
        evaluate(*sample(), **options)


def test_without_faiss_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UsageError, match=r"levelfield\[ann\]"):
        evaluate(*sample(), index="Flat")
