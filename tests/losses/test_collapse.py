"""Losses and gradients are correct near collapse, at extremes and on empty batches."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
import torch
from tests.oracles import losses_embedding as oracle

from levelfield import losses
from levelfield.core.geometry import euclidean, l2_normalize
from levelfield.losses._histogram import soft_histogram

DISTANCE_LOSSES = ["contrastive", "triplet", "margin", "lifted_structure", "generalized_lifted", "quadruplet"]


def almost_collapsed(size, spread):
    """Unit vectors (float64) whose mean distance is about ``spread``."""
    generator = torch.Generator().manual_seed(0)
    center = torch.randn(1, size, generator=generator, dtype=torch.float64)
    noise = torch.randn(16, size, generator=generator, dtype=torch.float64)
    return l2_normalize(l2_normalize(center) + spread * l2_normalize(noise) / 2**0.5)


@pytest.mark.parametrize("spread", [0.0035, 0.0012, 0.0001])
@pytest.mark.parametrize("name", DISTANCE_LOSSES)
def test_float32_keeps_the_gradient_near_collapse(name, spread):
    exact = almost_collapsed(128, spread).requires_grad_()
    labels = torch.arange(16) // 4
    loss = losses.create(name)
    (wanted,) = torch.autograd.grad(loss(exact, labels), exact)
    x = exact.detach().float().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(x, labels), x)
    error = (gradient - wanted).norm() / wanted.norm()
    assert error < 2e-3, f"relative error {error:.2%}"


def test_distances_near_collapse_are_those_of_the_differences():
    x = almost_collapsed(128, 0.001).float()
    direct = (x[:, None] - x).double().norm(dim=2)
    torch.testing.assert_close(euclidean(x).double(), direct, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("length", [1e-12, 1e19, 1e25, 3e38])
def test_long_and_short_vectors_keep_their_direction(length):
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [-1.0, 0.0]]) / 5 * length
    torch.testing.assert_close(l2_normalize(x), torch.tensor([[0.6, 0.8], [0.0, 0.0], [-1.0, 0.0]]))


@pytest.mark.slow
@pytest.mark.parametrize("name", losses.registry.names())
def test_an_empty_batch_costs_nothing(name):
    classifies = losses.registry[name].card.kind == "classification"
    loss = losses.create(name, **({"num_classes": 4, "embedding_size": 5} if classifies else {}))
    x = torch.empty(0, 5, requires_grad=True)
    value = loss(x, torch.empty(0, dtype=torch.int64))
    value.backward()
    assert value.shape == ()
    assert value.item() == 0


def test_beyond_the_outer_nodes_a_histogram_has_no_gradient():
    positions = torch.tensor([-0.5, 0.25, 1.5, 2.5], dtype=torch.float64, requires_grad=True)
    counts = soft_histogram(positions, torch.zeros(4, dtype=torch.int32), num_groups=1, num_nodes=3)
    (gradient,) = torch.autograd.grad((counts * torch.tensor([1.0, 3.0, 7.0])).sum(), positions)
    assert gradient.tolist() == [0.0, 2.0, 4.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("name", losses.registry.names())
def test_mean_nonzero_is_offered_where_a_loss_can_be_satisfied(name):
    """A satisfied hinge is zero; a soft loss never is, except for rounding."""
    hinges = {*DISTANCE_LOSSES, "snr_contrastive", "snr_triplet"}
    hint = inspect_reduction(name)
    assert ("mean_nonzero" in hint) == (name in hinges)


def inspect_reduction(name):
    return get_args(get_type_hints(losses.registry[name].target).get("reduction"))


def test_recall_at_k_follows_the_authors_code():
    """One query at a time: the query is ranked too, hits are capped at k and divided by min(k, P)."""
    x = torch.randn(12, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(12) // 4
    points = oracle.unit(x)
    total = 0.0
    for query in range(12):
        similarity = points @ points[query]
        mates = [i for i in range(12) if labels[i] == labels[query] and i != query]
        recalls = []
        for k in (1, 2, 4, 8, 12):
            hits = torch.zeros((), dtype=x.dtype)
            for mate in mates:
                others = [i for i in range(12) if i != mate]
                rank = 1 + torch.sigmoid((similarity[others] - similarity[mate]) / 0.01).sum()
                hits += torch.sigmoid(k - rank)
            recalls.append(min(float(hits), k) / min(k, 3))
        total += 1 - sum(recalls) / len(recalls)
    assert losses.create("recall_at_k")(x, labels).item() == pytest.approx(total / 12)
