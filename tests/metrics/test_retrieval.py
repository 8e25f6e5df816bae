"""Retrieval metrics agree with the obvious definition, for any input and algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.oracles import metrics as oracle

from levelfield.metrics import _filtered_search, evaluate

METRICS = (
    "precision_at_1",
    "r_precision",
    "map_at_r",
    "map_c",
    "recall_at_1",
    "recall_at_4",
    "recall_at_100",
    "precision_at_5",
    "map_at_10",
    "map",
    "mrr",
    "ndcg_at_7",
)
SHALLOW = ("precision_at_1", "r_precision", "map_at_r", "map_c", "recall_at_2")
KINDS = ("random", "tied", "duplicated", "one class", "unbalanced", "near ties", "far away", "collapsed")


def sample(kind, seed, *, size=None):
    """Embeddings (N, D) and labels (N,) of one difficult kind."""
    random = np.random.default_rng(seed)
    n = size or int(random.integers(3, 60))
    d = int(random.integers(1, 20))
    rows: NDArray[np.floating[Any]] = random.normal(size=(n, d)).astype(np.float32)
    labels = random.integers(0, max(1, n // 4), n)
    match kind:
        case "tied":
            rows = np.sign(np.round(rows)) + np.float32(0.5)
        case "duplicated":
            rows = rows[random.integers(0, n, n)]
        case "one class":
            labels[:] = 7
        case "unbalanced":
            labels = np.where(random.random(n) < 0.7, 0, labels)
        case "near ties":  # closer than float32 products can tell
            near = 1 + 1e-7 * random.normal(size=(n, d))
            rows = rows[random.integers(0, max(1, n // 5), n)].astype(np.float64) * near
        case "far away":
            rows = rows + np.float32(1000)
        case "collapsed":
            rows[:] = rows[0] + 0.5
    labels[:2] = labels[0]
    return rows, labels


@settings(max_examples=50, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10_000),
    distance=st.sampled_from(["cosine", "euclidean"]),
    chunk=st.sampled_from([1, 2, 32]),
    names=st.sampled_from([METRICS, SHALLOW, ("mrr", "recall_at_4")]),
)
def test_every_metric_is_what_its_definition_says(kind, seed, distance, chunk, names):
    rows, labels = sample(kind, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_filtered_search, "CHUNK", chunk)  # small chunks send small samples through the filter
        scores = evaluate(rows, labels, metrics=names, distance=distance, per_query=True)
    for name, expected in oracle.per_query(names, rows, labels, distance=distance).items():
        np.testing.assert_allclose(scores.per_query[name], expected, atol=1e-12, err_msg=name)
        assert scores[name] == pytest.approx(np.nanmean(expected))
        assert scores.skipped == np.isnan(expected).sum()


@settings(max_examples=30, deadline=None)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 10_000), chunk=st.sampled_from([2, 32]))
def test_a_gallery_of_its_own(kind, seed, chunk):
    rows, labels = sample(kind, seed, size=50)
    asked, held = labels[:20].copy(), labels[15:]
    asked[-1] = held[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_filtered_search, "CHUNK", chunk)
        scores = evaluate(
            rows[:20], asked, gallery=rows[15:], gallery_labels=held, metrics=METRICS, per_query=True
        )
    expected = oracle.per_query(METRICS, rows[:20], asked, gallery=rows[15:], gallery_labels=held)
    for name in METRICS:
        np.testing.assert_allclose(scores.per_query[name], expected[name], atol=1e-12, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_neither_blocks_nor_the_order_of_rows_change_a_score(kind):
    rows, labels = sample(kind, 3, size=200)
    whole = evaluate(rows, labels, metrics=METRICS, per_query=True)
    order = np.random.default_rng(0).permutation(len(rows))
    for memory in (30_000, 1 << 17):
        parts = evaluate(rows[order], labels[order], metrics=METRICS, per_query=True, memory=memory)
        for name in METRICS:
            np.testing.assert_array_equal(parts.per_query[name], whole.per_query[name][order])


def test_the_filter_and_the_sort_agree_on_a_larger_set():
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(300), 10)
    rows = random.normal(size=(300, 16))[labels] + 1.2 * random.normal(size=(3000, 16))
    rows[::50] = rows[1::50]
    fast = evaluate(rows, labels, metrics=SHALLOW, per_query=True)
    slow = evaluate(rows, labels, metrics=(*SHALLOW, "map"), per_query=True)
    for name in SHALLOW:
        np.testing.assert_array_equal(fast.per_query[name], slow.per_query[name])


def test_ties_never_raise_a_score():
    """If all embeddings are equal, nothing is found: every irrelevant item ranks before the relevant ones."""
    scores = evaluate(np.ones((6, 3)), [0, 0, 1, 1, 2, 2], metrics=("precision_at_1", "map", "mrr"))
    assert scores["precision_at_1"] == 0.0
    assert scores["mrr"] == scores["map"] == pytest.approx(1 / 5)


def test_singletons_are_left_out_as_queries_but_stay_in_the_gallery():
    rows = [[1, 0], [0.9, 0.1], [0.95, 0.05]]
    scores = evaluate(rows, ["a", "a", "b"], metrics=("precision_at_1",), per_query=True)
    assert (scores.queries, scores.skipped) == (2, 1)
    np.testing.assert_array_equal(scores.per_query["precision_at_1"], [0, 0, np.nan])


def test_the_worked_example_of_map_c():
    """A perfect ranking of a class of 3: R = 2 and map_at_r = 1, but map_c counts the query, (1 + 1) / 3."""
    rows = np.repeat(np.eye(3), 3, axis=0) + 0.01 * np.random.default_rng(0).normal(size=(9, 3))
    scores = evaluate(rows, np.repeat([0, 1, 2], 3), metrics=("map_at_r", "map_c"))
    assert scores["map_at_r"] == 1.0
    assert scores["map_c"] == pytest.approx(2 / 3)


def test_scaled_rows_are_duplicates_under_cosine():
    random = np.random.default_rng(1)
    row = random.normal(size=8)
    rows = np.stack([row, 3 * row, 1e-30 * row, 1e30 * row, -row])
    scores = evaluate(rows, [0, 1, 0, 1, 1], metrics=("precision_at_1", "map_at_r"))
    assert scores["precision_at_1"] == 0.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int8])
def test_any_number_type_is_scored_as_the_numbers_it_holds(dtype):
    rows = (torch.randn(60, 8, generator=torch.Generator().manual_seed(0)) * 20).to(dtype)
    rows[:, 0] = 1
    labels = torch.arange(60) % 12
    expected = oracle.per_query(["map_at_r"], rows.double().numpy(), labels.numpy())["map_at_r"]
    assert evaluate(rows, labels)["map_at_r"] == pytest.approx(expected.mean())


def test_a_careless_matmul_precision_does_not_matter_and_is_left_as_it_was():
    rows, labels = sample("near ties", 5, size=200)
    expected = evaluate(rows, labels)["map_at_r"]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert evaluate(rows, labels)["map_at_r"] == expected
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_million_classes():
    rows = np.random.default_rng(0).normal(size=(1_000_000, 2)).astype(np.float32)
    scores = evaluate(
        rows[:8],
        np.arange(8),
        gallery=rows,
        gallery_labels=np.arange(1_000_000),
        metrics=("precision_at_1", "map_at_r", "recall_at_10"),
    )
    assert dict(scores) == {"precision_at_1": 1.0, "map_at_r": 1.0, "recall_at_10": 1.0}


def test_a_mapped_file_is_scored_without_copying_it(tmp_path):
    rows, labels = sample("random", 11, size=300)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    own = evaluate(mapped, labels)
    assert dict(own) == dict(evaluate(rows, labels))


def test_a_gallery_too_large_to_keep_is_prepared_piece_by_piece(monkeypatch):
    rows, labels = sample("random", 12, size=300)
    expected = evaluate(rows, labels, metrics=SHALLOW, distance="euclidean")
    monkeypatch.setattr("levelfield.metrics._vectors.CACHE_BYTES", 0)
    again = evaluate(rows, labels, metrics=SHALLOW, distance="euclidean", memory=50_000)
    assert dict(again) == dict(expected)


@pytest.mark.parametrize("most", [3, 500])
def test_too_many_candidates_are_sorted_instead(monkeypatch, most):
    rows, labels = sample("duplicated", 4, size=400)
    expected = evaluate(rows, labels, metrics=SHALLOW, per_query=True)
    monkeypatch.setattr(_filtered_search, "MAX_CANDIDATES", most)
    again = evaluate(rows, labels, metrics=SHALLOW, per_query=True)
    for name in SHALLOW:
        np.testing.assert_array_equal(again.per_query[name], expected.per_query[name])
