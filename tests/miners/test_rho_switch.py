"""rho-regularization: the right fraction of tuples is switched, and they push one class apart."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from levelfield import losses, miners
from levelfield.core.errors import UsageError
from levelfield.miners import Pairs, Triplets
from levelfield.miners.distance_weighted import DistanceWeighted
from levelfield.miners.rho_switch import RhoSwitch


def batch(size=64, per_class=4):
    embeddings = F.normalize(torch.randn(size, 16, generator=torch.Generator().manual_seed(0)) + 0.5)
    return embeddings, torch.arange(size) // per_class


def switching(**options):
    miner = miners.create("rho_switch", **options)
    assert isinstance(miner, RhoSwitch)
    return miner


def listed(tuples):
    return [column.tolist() for column in tuples.indices]


@pytest.mark.parametrize("inner", ["distance_weighted", "hard", "all", "multi_similarity"])
def test_without_switches_nothing_changes(inner):
    embeddings, labels = batch()
    wrapped = miners.create("rho_switch", miner=inner, p_switch=0.0)
    assert listed(wrapped(embeddings, labels)) == _same_inner(inner, embeddings, labels)


def _same_inner(inner, embeddings, labels):
    """Return the tuples of the inner miner with the seed that the wrapper gives it."""
    return listed(switching(miner=inner, p_switch=0.0).miner(embeddings, labels))


def test_a_switched_triplet_pushes_anchor_and_positive_apart():
    embeddings, labels = batch()
    plain = miners.create("hard")(embeddings, labels)
    found = miners.create("rho_switch", miner="hard", p_switch=0.4, seed=1)(embeddings, labels)
    assert isinstance(plain, Triplets) and isinstance(found, Triplets)
    switched = found.positive == found.anchor
    assert 0.2 < switched.float().mean() < 0.6
    assert torch.equal(found.anchor, plain.anchor)
    assert torch.equal(found.negative[switched], plain.positive[switched])
    assert torch.equal(found.positive[~switched], plain.positive[~switched])
    assert torch.equal(found.negative[~switched], plain.negative[~switched])


def test_a_switched_pair_takes_a_random_positive_for_its_negative():
    embeddings, labels = batch()
    plain = miners.create("all")(embeddings, labels)
    found = miners.create("rho_switch", miner="all", p_switch=0.25, seed=1)(embeddings, labels)
    assert isinstance(plain, Pairs) and isinstance(found, Pairs)
    assert torch.equal(found.positive, plain.positive)
    assert torch.equal(found.neg_anchor, plain.neg_anchor)
    switched = labels[found.neg_anchor] == labels[found.negative]
    assert switched.float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert (found.negative[switched] != found.neg_anchor[switched]).all()
    assert torch.equal(found.negative[~switched], plain.negative[~switched])
    of_first = found.negative[switched & (found.neg_anchor == 0)]
    assert set(of_first.tolist()) == {1, 2, 3}


def test_an_anchor_without_positives_keeps_its_negatives():
    labels = torch.tensor([0, 1, 1])
    found = miners.create("rho_switch", miner="all", p_switch=1.0)(torch.randn(3, 2), labels)
    assert isinstance(found, Pairs)
    assert found.negative[found.neg_anchor == 0].tolist() == [1, 2]
    assert (labels[found.negative[found.neg_anchor > 0]] == 1).all()


@pytest.mark.parametrize("name", ["contrastive", "triplet", "margin", "snr_contrastive", "snr_triplet"])
def test_the_regularized_tuple_losses_push_samples_of_one_class_apart(name):
    """With every tuple switched, a gradient step widens the classes; without, it narrows them."""

    def spread(points):
        near = F.normalize(points).reshape(8, 2, 6)
        return (near[:, 0] - near[:, 1]).norm(dim=1).mean().item()

    labels = torch.arange(16) // 2
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(8, 1, 6, generator=generator)
    raw = (centers + 0.05 * torch.randn(8, 2, 6, generator=generator)).reshape(16, 6).requires_grad_()
    embeddings = F.normalize(raw)
    miner = miners.create("rho_switch", p_switch=1.0)
    loss = losses.create(name)
    loss(embeddings, labels, miner(embeddings, labels)).backward()
    assert raw.grad is not None and torch.isfinite(raw.grad).all()
    assert raw.grad.any()
    step = 0.01 / raw.grad.norm()
    assert spread(raw.detach() - step * raw.grad) > spread(raw.detach())


def test_reseeding_covers_the_switches_and_the_inner_miner():
    embeddings, labels = batch()
    miner = miners.create("rho_switch", seed=3)
    first = listed(miner(embeddings, labels))
    assert listed(miner(embeddings, labels)) != first
    miners.reseed(miner, 8)
    again = listed(miner(embeddings, labels))
    miners.reseed(miner, 8)
    assert listed(miner(embeddings, labels)) == again
    assert listed(miners.create("rho_switch", seed=3)(embeddings, labels)) == first


def test_an_inner_miner_may_be_named_with_options_or_given():
    named = switching(miner="distance_weighted", cutoff=0.3, limit=1.2)
    assert isinstance(named.miner, DistanceWeighted)
    assert (named.miner.cutoff, named.miner.limit) == (0.3, 1.2)
    inner = miners.create("hard")
    assert switching(miner=inner).miner is inner


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p_switch": 1.5}, "between 0 and 1"),
        ({"miner": "hardd"}, 'did you mean "hard"'),
        ({"miner": "hard", "cutoff": 1.0}, 'no parameter "cutoff"'),
        ({"miner": miners.create("hard"), "cutoff": 1.0}, "need a miner given by name"),
    ],
)
def test_invalid_options_are_errors(options, message):
    with pytest.raises(UsageError, match=message):
        miners.create("rho_switch", **options)
