"""Losses with two ways to compute the same thing: both equal the oracle, whichever a batch would choose."""

from __future__ import annotations

import pytest
import torch
from tests.oracles import losses_embedding as oracles

from levelfield import losses
from levelfield.core.geometry import Pairs
from levelfield.losses import _quadruplets, contextual, contrastive, embedding_expansion

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4, 4])


def points():
    x = torch.randn(len(LABELS), 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x.requires_grad_()


def assert_equal_to_the_oracle(name, tuples=None, **options):
    x = points()
    given = () if tuples is None else (tuples,)
    values = (
        losses.create(name, **options)(x, LABELS, *given),
        getattr(oracles, name)(x, LABELS, tuples, **options),
    )
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*(torch.autograd.grad(value, x) for value in values))


@pytest.mark.parametrize("few", [0, 100], ids=["sorted", "one by one"])
@pytest.mark.parametrize("margin", [-0.3, 0.5, 5.0])
def test_quadruplets_of_small_and_large_classes(monkeypatch, few, margin):
    monkeypatch.setattr(_quadruplets, "FEW_PAIRS", few)
    assert_equal_to_the_oracle("quadruplet", margin_2=margin)


@pytest.mark.parametrize("dense", [0, 10_000], ids=["sparse", "dense"])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 4.0])
def test_contextual_with_few_and_many_neighbors(monkeypatch, dense, epsilon):
    monkeypatch.setattr(contextual, "DENSE", dense)
    assert_equal_to_the_oracle("contextual", epsilon=epsilon)


@pytest.mark.parametrize("few", [0, 10_000], ids=["listed", "all distances"])
@pytest.mark.parametrize("reduction", ["mean", "mean_nonzero", "sum"])
def test_contrastive_of_few_and_many_listed_pairs(monkeypatch, few, reduction):
    monkeypatch.setattr(contrastive, "FEW", few)
    pairs = Pairs(*(torch.tensor(rows) for rows in ([0, 0, 3, 3], [1, 1, 4, 4], [0, 5, 9], [3, 0, 11])))
    assert_equal_to_the_oracle("contrastive", pairs, reduction=reduction, neg_margin=1.5)


@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_embedding_expansion_in_chunks(monkeypatch, chunk, count):
    monkeypatch.setattr(embedding_expansion, "CHUNK", chunk)
    assert_equal_to_the_oracle("embedding_expansion", points=count, margin=0.4)


def test_embedding_expansion_between_opposite_samples():
    """The middle of two opposite samples has no length; the distances are computed in the other way."""
    x = points().detach()
    x[1] = -x[0]
    x.requires_grad_()
    values = (
        losses.create("embedding_expansion", points=1)(x, LABELS),
        oracles.embedding_expansion(x, LABELS, None, points=1),
    )
    torch.testing.assert_close(*values)


@pytest.mark.parametrize("values", [[1.0, 2.0, 2.0, 5.0], [3.0, 3.0], [0.0], [1.0, 1.0 + 1e-7, 1e6]])
def test_count_below_equals_a_search(values):
    ordered = torch.tensor(values)
    around = torch.cat([ordered, ordered.nextafter(ordered + 1), ordered.nextafter(ordered - 1)])
    asked = torch.cat([around, torch.linspace(-2, 9, 100), torch.tensor([torch.inf, -1e30])])
    found = _quadruplets.count_below(ordered, asked)
    assert found.tolist() == torch.searchsorted(ordered, asked, right=True).tolist()


def test_count_below_of_many_numbers():
    draw = torch.Generator().manual_seed(0)
    ordered, asked = torch.rand(500, generator=draw).sort().values, torch.randn(40, 50, generator=draw)
    found = _quadruplets.count_below(ordered, asked)
    assert torch.equal(found, torch.searchsorted(ordered, asked, right=True))
