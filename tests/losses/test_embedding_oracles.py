"""Every embedding loss equals explicit loops, in value and in gradient."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.naming import each_named
from tests.oracles.losses_embedding_cases import (
    CASES,
    LABELS,
    MINED,
    Case,
    batch,
    no_pairs,
    no_triplets,
    random_pairs,
    random_triplets,
)
from torch import Tensor

from levelfield.miners import MinedTuples

pytestmark = pytest.mark.slow  # experiments, end to end

BATCHES = [*LABELS, "duplicates", "collapsed", "opposite"]


def assert_equals_oracle(case: Case, x: Tensor, y: Tensor, tuples: MinedTuples | None = None) -> None:
    value = case.create()(x, y, tuples)
    expected = case.expected(x, y, tuples)
    assert value.shape == ()
    torch.testing.assert_close(value, expected, rtol=1e-7, atol=1e-8)
    (gradient,) = torch.autograd.grad(value, x)
    (wanted,) = torch.autograd.grad(expected, x)
    torch.testing.assert_close(gradient, wanted, rtol=1e-6, atol=1e-6)


# The true slope is infinite where two positives coincide; ours is limited there (test_embedding_numerics.py).
STEEP = {("tuplet_margin", "duplicates"), ("tuplet_margin", "collapsed"), ("tuplet_margin", "opposite")}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_explicit_loops(case: Case) -> None:
    for kind, name in each_named(kind for kind in BATCHES if (case.name, kind) not in STEEP):
        with name:
            assert_equals_oracle(case, *batch(kind))


@pytest.mark.parametrize("case", MINED, ids=str)
@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_equals_explicit_loops_over_mined_tuples(case: Case, kind: str) -> None:
    x, y = batch(kind, seed=1)
    assert_equals_oracle(case, x, y, random_triplets(y, 12))
    assert_equals_oracle(case, x, y, random_pairs(y, 7))


@pytest.mark.parametrize("case", MINED, ids=str)
def test_without_tuples_is_exactly_zero_with_zero_gradient(case: Case) -> None:
    x, y = batch("balanced")
    for tuples in (no_triplets(), no_pairs()):
        value = case.create()(x, y, tuples)
        assert value.item() == 0
        assert torch.equal(torch.autograd.grad(value, x)[0], torch.zeros_like(x))


@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=8, deadline=None)
@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=7), seed=st.integers(0, 1000))
def test_equals_explicit_loops_on_any_batch(case: Case, labels: list[int], seed: int) -> None:
    x = torch.randn(len(labels), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    assert_equals_oracle(case, x.requires_grad_(), torch.tensor(labels))


@pytest.mark.parametrize("width", [3, 8, 11])
def test_triplets_are_summed_alike_with_few_and_with_many_positives(width: int) -> None:
    y = torch.arange(2).repeat_interleave(width + 1)
    x = torch.randn(len(y), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert_equals_oracle(Case("triplet", {"margin": 0.1}), x.requires_grad_(), y)
