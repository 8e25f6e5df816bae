"""Filtered search: NumPy selection equals sorting, and filtered ranks equal those of a full sort."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from levelfield.metrics import _exact, _filtered_search, evaluate
from levelfield.metrics._selection import by_row_then_similarity, nth_largest, rows_and_columns

VALUES = st.floats(-2, 2, width=32)


@given(
    values=arrays.arrays(np.float32, (4, 7), elements=VALUES),
    nth=st.lists(st.integers(1, 7), min_size=4, max_size=4),
)
def test_the_nth_largest(values, nth):
    found = nth_largest(torch.from_numpy(values), torch.tensor(nth))
    assert found.tolist() == [
        sorted(row, reverse=True)[n - 1] for row, n in zip(values.tolist(), nth, strict=True)
    ]


@given(mask=arrays.arrays(np.bool_, (3, 5)))
def test_where_the_mask_is_true(mask):
    row, column = rows_and_columns(torch.from_numpy(mask))
    assert torch.stack([row, column], 1).tolist() == np.argwhere(mask).tolist()


@given(pairs=st.lists(st.tuples(st.integers(0, 1023), VALUES | st.just(-np.inf)), min_size=1))
def test_pairs_are_ordered_by_row_and_falling_value(pairs):
    row = torch.tensor([r for r, _ in pairs])
    value = torch.tensor([v for _, v in pairs], dtype=torch.float32)
    order = by_row_then_similarity(row, value)
    assert sorted(order.tolist()) == list(range(len(pairs)))
    seen = [(int(row[i]), -float(value[i])) for i in order]
    assert seen == sorted(seen)


@pytest.mark.parametrize(("classes", "step"), [(25, 0.0), (25, 0.5), (3, 0.5), (12, 0.0)])
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_few_large_classes_score_as_if_everything_were_sorted(classes, step, distance, monkeypatch):
    """R is a large part of the gallery, as in a fold. ``step`` rounds coordinates to make ties."""
    generator = torch.Generator().manual_seed(classes)
    labels = torch.randint(0, classes, (700,), generator=generator)
    rows = torch.randn(classes, 16, generator=generator)[labels] + torch.randn(700, 16, generator=generator)
    rows = (rows / step).round() * step + 0.01 if step else rows
    names = ("precision_at_1", "r_precision", "map_at_r", "map_c", "ndcg_at_40", "mrr")
    filtered = evaluate(rows, labels, metrics=names, distance=distance, per_query=True)
    monkeypatch.setattr(_filtered_search, "needs_full_sort", lambda *_: True)
    by_sorting = evaluate(rows, labels, metrics=names, distance=distance, per_query=True)
    for name in names:
        assert np.array_equal(filtered.per_query[name], by_sorting.per_query[name])


@pytest.mark.parametrize("spread", [0.3, 1e-2, 1e-4, 1e-7, 1e-10, 1e-12, 1e-13, 1e-14, 0.0])
def test_almost_collapsed_embeddings_score_as_with_direct_distances(spread, monkeypatch):
    """They are compared by a product of centered rows; every distance was computed directly before."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.arange(240) // 6
    rows = torch.ones(240, 16, dtype=torch.float64)
    rows = rows + spread * torch.randn(240, 16, generator=generator, dtype=torch.float64)
    rows[7] = rows[100]  # a tie
    names = ("precision_at_1", "map_at_r", "mrr")
    fast = evaluate(rows, labels, metrics=names, per_query=True)
    monkeypatch.setattr(_exact, "REMOTE", -1.0)
    direct = evaluate(rows, labels, metrics=names, per_query=True)
    for name in names:
        assert np.array_equal(fast.per_query[name], direct.per_query[name])


@pytest.mark.parametrize("spread", [1e-4, 0.0])
def test_almost_collapsed_embeddings_need_few_direct_distances(spread, monkeypatch):
    generator = torch.Generator().manual_seed(3)
    rows = torch.ones(400, 32) + spread * torch.randn(400, 32, generator=generator)
    monkeypatch.setattr(torch, "cdist", lambda *_, **__: pytest.fail("every distance computed directly"))
    evaluate(rows, torch.arange(400) // 4, metrics=("map_at_r",))
