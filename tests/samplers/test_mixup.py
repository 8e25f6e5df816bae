"""Manifold mixup: blended features, blended losses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional as F

from levelfield import losses, miners
from levelfield.core.errors import UsageError
from levelfield.samplers.mixup import MixedBatch, mix_batch


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_each_sample_is_blended_with_the_one_whose_label_it_carries():
    labels = torch.arange(12)
    features = torch.randn(12, 3, 5, generator=generator())
    mixed = mix_batch(features, labels, generator=generator())
    assert torch.allclose(
        mixed.features, mixed.weight * features + (1 - mixed.weight) * features[mixed.partner_labels]
    )
    assert sorted(mixed.partner_labels.tolist()) == labels.tolist()
    assert torch.equal(mixed.labels, labels)


def test_weights_follow_the_beta_distribution_of_the_generator():
    stream = generator()
    weights = [mix_batch(torch.zeros(2, 1), torch.arange(2), generator=stream).weight for _ in range(1000)]
    assert stats.kstest(weights, stats.beta(2, 2).cdf).pvalue > 0.01
    assert mix_batch(torch.zeros(2, 1), torch.arange(2), generator=generator()).weight == weights[0]


def test_the_classification_loss_is_cross_entropy_against_the_blended_target():
    labels = torch.tensor([0, 1, 2, 0])
    logits = torch.randn(4, 3, generator=generator())
    mixed = mix_batch(logits, labels, generator=generator())
    target = mixed.weight * F.one_hot(labels, 3) + (1 - mixed.weight) * F.one_hot(mixed.partner_labels, 3)
    value = mixed.loss(lambda entry: F.cross_entropy(mixed.features, entry))
    assert torch.allclose(value, F.cross_entropy(mixed.features, target))


def test_the_tuple_loss_is_equation_30():
    """Under each label entry the mixed samples form their own triplets, weighted by the entry's share."""
    labels = torch.arange(12) // 3
    mixed = mix_batch(torch.randn(12, 4, generator=generator()), labels, generator=generator(1))
    points = F.normalize(mixed.features).numpy()
    loss = losses.create("triplet", margin=0.2, reduction="sum")
    value = mixed.loss(lambda entry: loss(torch.from_numpy(points), entry))
    expected = 0.0
    for share, entry in ((mixed.weight, mixed.labels), (1 - mixed.weight, mixed.partner_labels)):
        for a in range(12):
            for p in range(12):
                for n in range(12):
                    if a != p and entry[a] == entry[p] != entry[n]:
                        gap = float(
                            np.linalg.norm(points[a] - points[p]) - np.linalg.norm(points[a] - points[n])
                        )
                        expected += share * max(0.0, gap + 0.2)
    assert value.item() == pytest.approx(expected, rel=1e-4)


def test_with_a_miner_the_gradient_reaches_both_partners():
    labels = torch.arange(8) // 2
    features = torch.randn(8, 4, generator=generator(), requires_grad=True)
    mixed = mix_batch(features, labels, generator=generator())
    embeddings, miner, loss = F.normalize(mixed.features), miners.create("hard"), losses.create("triplet")
    mixed.loss(lambda entry: loss(embeddings, entry, miner(embeddings, entry))).backward()
    assert features.grad is not None and torch.isfinite(features.grad).all()
    assert features.grad.any(dim=1).all()


def test_entries_that_agree_weigh_one():
    labels = torch.zeros(4, dtype=torch.int64)
    mixed = MixedBatch(torch.zeros(4, 1), labels, labels, 0.3)
    assert mixed.loss(lambda entry: torch.tensor(2.0)).item() == pytest.approx(2.0)


def test_a_bad_alpha_is_refused():
    with pytest.raises(UsageError, match="alpha"):
        mix_batch(torch.zeros(2, 1), torch.arange(2), alpha=0.0, generator=generator())


@pytest.mark.parametrize("size", [2, 3, 8])
def test_nobody_is_its_own_partner_and_everybody_is_one(size):
    labels = torch.arange(size)
    for seed in range(50):
        mixed = mix_batch(torch.zeros(size, 1), labels, generator=generator(seed))
        assert not (mixed.partner_labels == labels).any()
        assert sorted(mixed.partner_labels.tolist()) == labels.tolist()
