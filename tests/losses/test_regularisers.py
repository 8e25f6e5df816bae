"""Regularisers: right to the formula, and finite where embeddings coincide."""

from __future__ import annotations

import math

import pytest
import torch

from levelfield.errors import UsageError
from levelfield.losses import regularisers

NAMES = regularisers.registry.names()


def embeddings(count=7, seed=0):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_koleo(x):
    points = x / x.norm(dim=1, keepdim=True)
    total = 0.0
    for i in range(len(x)):
        nearest = min((points[i] - points[j]).norm().item() for j in range(len(x)) if j != i)
        total += math.log(nearest)
    return -total / len(x)


def test_names_are_the_issue_s():
    assert NAMES == ["koleo", "l2", "zero_mean"]


def test_koleo_equals_the_loops():
    x = embeddings()
    assert regularisers.create("koleo")(x).item() == pytest.approx(slow_koleo(x), abs=1e-6)


def test_l2_and_zero_mean_equal_pytorch_metric_learning():
    peers = pytest.importorskip("pytorch_metric_learning.regularizers")
    x = embeddings()
    torch.testing.assert_close(regularisers.create("l2")(x), peers.LpRegularizer(p=2, power=2)(x))
    torch.testing.assert_close(regularisers.create("zero_mean")(x), peers.ZeroMeanRegularizer()(x))


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck(name):
    assert torch.autograd.gradcheck(regularisers.create(name), embeddings().requires_grad_())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["collapsed", "zero", "one", "none"])
def test_finite_where_there_is_nothing_to_spread(name, where):
    x = {
        "collapsed": torch.ones(4, 3),
        "zero": torch.zeros(4, 3),
        "one": torch.ones(1, 3),
        "none": torch.ones(0, 3),
    }[where].requires_grad_()
    value = regularisers.create(name)(x)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(x.grad).all()


def test_unknown_names_and_options_are_refused():
    with pytest.raises(UsageError, match='unknown regulariser "koleos"; did you mean "koleo"'):
        regularisers.create("koleos")
    with pytest.raises(UsageError, match='has no parameter "epsilon"'):
        regularisers.create("koleo", epsilon=1.0)
