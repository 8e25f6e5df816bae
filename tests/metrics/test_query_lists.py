"""Relevance by lists: every metric agrees with a slow oracle, in every way to search; bad lists are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import metrics as oracle

from levelfield.core.errors import UsageError
from levelfield.metrics import _filtered_search, evaluate

NAMES = (
    "precision_at_1",
    "r_precision",
    "map_at_r",
    "map_c",
    "recall_at_3",
    "map_at_7",
    "mp_at_5",
    "ndcg_at_6",
    "map",
    "map_trapezoid",
    "mrr",
)
SHALLOW = tuple(name for name in NAMES if name not in {"map", "map_trapezoid", "mrr"})


def random_lists(random, queries, items, *, most=6):
    """Disjoint lists of relevant and of ignored items; some queries have none."""
    relevant, ignore = [], []
    for _ in range(queries):
        order = random.permutation(items).tolist()
        count, hidden = random.integers(0, most), random.integers(0, items // 2)
        relevant.append(order[:count])
        ignore.append(order[count : count + hidden])
    return relevant, ignore


def assert_equal(scores, expected, rtol=1e-7):
    for name, values in expected.items():
        np.testing.assert_allclose(scores.per_query[name], values, rtol=rtol, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("names", [NAMES, SHALLOW])
@pytest.mark.parametrize("step", [0.0, 1.0])
def test_lists_agree_with_the_oracle(distance, names, step):
    """``step`` rounds coordinates, so that there are ties; the shallow metrics use the filter."""
    random = np.random.default_rng(3)
    rows, items = random.normal(size=(40, 3)), random.normal(size=(300, 3))
    if step:
        rows, items = rows.round() + 0.25, items.round() + 0.25
    relevant, ignore = random_lists(random, 40, 300)
    options = {"gallery": items, "distance": distance}
    scores = evaluate(rows, relevant=relevant, ignore=ignore, metrics=names, per_query=True, **options)
    assert_equal(scores, oracle.per_query_by_lists(names, rows, relevant, ignore, **options))
    assert scores.skipped == sum(not each for each in relevant)


def test_queries_that_are_the_gallery_do_not_find_themselves():
    random = np.random.default_rng(5)
    rows = random.normal(size=(60, 4))
    relevant, ignore = random_lists(random, 60, 60)
    scores = evaluate(rows, relevant=relevant, ignore=ignore, metrics=NAMES, per_query=True)
    assert_equal(scores, oracle.per_query_by_lists(NAMES, rows, relevant, ignore))


def test_lists_of_a_class_score_as_the_class():
    random = np.random.default_rng(1)
    labels, classes = random.integers(0, 8, 30), random.integers(0, 8, 200)
    rows, items = random.normal(size=(30, 6)), random.normal(size=(200, 6))
    lists = [np.flatnonzero(classes == label) for label in labels]
    options: dict[str, Any] = {"gallery": items, "metrics": NAMES, "per_query": True}
    by_class = evaluate(rows, labels, gallery_labels=classes, **options)
    by_list = evaluate(rows, relevant=lists, **options)
    for name in NAMES:
        assert np.array_equal(by_class.per_query[name], by_list.per_query[name])


@pytest.mark.parametrize("alone", [True, False])
def test_classes_with_ignored_items_agree_with_lists(alone):
    random = np.random.default_rng(2)
    rows = random.normal(size=(90, 5))
    labels = random.integers(0, 9, 90)
    _, ignore = random_lists(random, 90, 90)
    relevant = [
        [n for n in np.flatnonzero(labels == label).tolist() if n not in skip]
        for label, skip in zip(labels, ignore, strict=True)
    ]
    other: dict[str, Any] = {} if alone else {"gallery": rows[::-1].copy()}
    if not alone:
        relevant = [
            [n for n in np.flatnonzero(labels[::-1] == label).tolist() if n not in skip]
            for label, skip in zip(labels, ignore, strict=True)
        ]
    by_class = evaluate(
        rows,
        labels,
        ignore=ignore,
        metrics=NAMES,
        per_query=True,
        **other,
        gallery_labels=None if alone else labels[::-1],
    )
    assert_equal(by_class, oracle.per_query_by_lists(NAMES, rows, relevant, ignore, **other))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), memory=st.sampled_from([1 << 10, 1 << 14, 256 << 20]))
def test_memory_and_the_way_of_searching_change_no_score(seed, memory):
    random = np.random.default_rng(seed)
    rows, items = random.normal(size=(12, 3)).round(1) + 0.01, random.normal(size=(150, 3)).round(1) + 0.01
    relevant, ignore = random_lists(random, 12, 150)
    relevant[0] = relevant[0] or [min(set(range(150)) - set(ignore[0]))]
    options = {
        "gallery": items,
        "relevant": relevant,
        "ignore": ignore,
        "metrics": SHALLOW,
        "per_query": True,
    }
    filtered = evaluate(rows, memory=memory, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_filtered_search, "needs_full_sort", lambda *_: True)
        by_sorting = evaluate(rows, **options)
    for name in SHALLOW:
        assert np.array_equal(filtered.per_query[name], by_sorting.per_query[name], equal_nan=True)


def test_everything_else_ignored_is_a_perfect_ranking():
    rows = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    items = torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    ignore = [[n for n in range(200) if n != 7]] * 3
    scores = evaluate(rows, gallery=items, relevant=[[7]] * 3, ignore=ignore, metrics=NAMES)
    assert all(scores[name] == 1 for name in NAMES if name != "map_c")
    assert scores["map_c"] == 0.5  # the query counts as relevant and is not found


def test_an_approximate_index_leaves_out_ignored_items():
    pytest.importorskip("faiss")
    random = np.random.default_rng(4)
    rows, items = random.normal(size=(20, 8)), random.normal(size=(120, 8))
    relevant, ignore = random_lists(random, 20, 120)
    options = {"gallery": items, "relevant": relevant, "ignore": ignore, "metrics": ("map_at_7",)}
    assert evaluate(rows, index="Flat", **options)["map_at_7"] == pytest.approx(
        evaluate(rows, **options)["map_at_7"], abs=1e-12
    )


ROWS = np.random.default_rng(0).normal(size=(3, 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "neither labels nor relevant"),
        ({"relevant": [[1]]}, "relevant has 1 lists but there are 3 queries"),
        ({"relevant": [[1], [3], []]}, "relevant of query 1 lists item 3, which is not in the gallery of 3"),
        ({"relevant": [[1], [-1], []]}, "lists item -1"),
        ({"relevant": [[1], [2, 0, 2], []]}, "relevant of query 1 lists item 2 twice"),
        ({"relevant": [[1], [2], []], "ignore": [[1], [], []]}, "query 0 lists item 1 as relevant and as"),
        ({"relevant": [[1], ["a"], []]}, "something else than whole numbers"),
        ({"relevant": [[1], [0.5], []]}, "something else than whole numbers"),
        ({"relevant": [[1], [float("nan")], []]}, "something else than whole numbers"),
        ({"relevant": [[1], [float("inf")], []]}, "something else than whole numbers"),
        ({"relevant": [[1], [2**70], []]}, "something else than whole numbers"),
        ({"relevant": [[1], [{}], []]}, "something else than whole numbers"),
        ({"relevant": [1, 2, 3]}, "not a list of lists"),
        ({"relevant": "abc"}, "relevant is a str"),
        ({"relevant": [[], [], []]}, "no query has a relevant item"),
        ({"relevant": [[0], [1], [2]]}, "no query has a relevant item"),
        ({"relevant": [[1], [2], []], "gallery": ROWS, "gallery_labels": [0, 1, 2]}, "both say what is"),
        ({"relevant": [[1], [2], []], "metrics": ("nmi",)}, "nmi needs classes"),
        ({"labels": [0, 0, 1], "ignore": [[5], [], []]}, "ignore of query 0 lists item 5"),
    ],
)
def test_bad_lists_are_named(options, message):
    with pytest.raises(UsageError, match=message) as caught:
        evaluate(ROWS, **options)
    assert "\n" not in str(caught.value)


def test_intervals_take_queries_or_groups_of_queries_as_units():
    random = np.random.default_rng(6)
    items, groups = random.normal(size=(80, 4)), np.repeat(np.arange(8), 5)
    rows = np.repeat(random.normal(size=(8, 4)), 5, axis=0)  # five equal queries of each group
    lists = [[int(group)] for group in groups]
    options: dict[str, Any] = {"gallery": items, "relevant": lists, "metrics": ("mrr",), "intervals": True}
    wide, narrow = (evaluate(rows, given, **options).intervals["mrr"] for given in (groups, None))
    assert wide[1] - wide[0] > 1.5 * (narrow[1] - narrow[0])
