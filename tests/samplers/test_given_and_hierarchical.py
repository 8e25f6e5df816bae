"""Batches of given tuples, of super-classes and of weighted samples; training without class labels."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

import levelfield as lf
from levelfield.core.errors import UsageError
from levelfield.samplers import GivenPairs, GivenTriplets, Hierarchical, Weighted
from levelfield.samplers.weighted import tuple_weights

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(12), 10))
KINDS = LABELS // 4  # 3 super-classes of 4 classes


def cloud() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(12, 16, generator=generator)
    return centers[LABELS] + 1.5 * torch.randn(len(LABELS), 16, generator=generator)


def map_at_r(network: torch.nn.Module) -> float:
    embeddings = network(cloud()).detach()
    return lf.metrics.evaluate(embeddings, torch.from_numpy(LABELS), metrics=("map_at_r",))["map_at_r"]


def true_pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    pairs = random.integers(len(LABELS), size=(40 * count, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = LABELS[pairs[:, 0]] == LABELS[pairs[:, 1]]
    return pairs[same][:count], pairs[~same][:count]


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["triplet", "margin", "contrastive", "multi_similarity", "ntxent"])
@pytest.mark.parametrize("given", ["triplets", "pairs"])
def test_given_tuples_teach_without_labels(loss: str, given: str) -> None:
    sampler: GivenTriplets | GivenPairs = (
        GivenTriplets.draw(LABELS, 300, batch_size=48, seed=0)
        if given == "triplets"
        else GivenPairs(*true_pairs(150), batch_size=48, seed=0)
    )
    if given == "pairs" and loss in ("triplet", "margin", "ntxent"):
        pytest.skip("pairs of different anchors do not make a triplet")
    torch.manual_seed(0)
    network, points = torch.nn.Linear(16, 8), cloud()
    made, before = lf.losses.create(loss), map_at_r(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for epoch in range(12):
        for rows in sampler.epoch(epoch):
            no_labels = torch.zeros(len(rows), dtype=torch.int64)
            value = made(network(points[rows]), no_labels, sampler.tuples)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    assert map_at_r(network) > before + 0.01


@pytest.mark.parametrize("loss", ["triplet", "contrastive", "multi_similarity", "margin", "ntxent"])
def test_with_tuples_the_labels_do_not_matter(loss: str) -> None:
    sampler = GivenTriplets.draw(LABELS, 50, batch_size=24, seed=3)
    rows = next(sampler.epoch(0))
    made, x = lf.losses.create(loss), cloud()[rows]
    with_labels = made(x, torch.from_numpy(LABELS[rows]), sampler.tuples)
    torch.testing.assert_close(made(x, torch.zeros(24, dtype=torch.int64), sampler.tuples), with_labels)


def test_drawn_triplets_are_triplets_and_stay_the_same() -> None:
    sampler = GivenTriplets.draw(LABELS, 40, batch_size=30, seed=0)
    anchor, positive, negative = sampler.triplets.T
    assert (LABELS[anchor] == LABELS[positive]).all() and (anchor != positive).all()
    assert (LABELS[anchor] != LABELS[negative]).all()
    assert (sampler.triplets == GivenTriplets.draw(LABELS, 40, batch_size=3, seed=0).triplets).all()
    assert len(np.unique(LABELS[anchor])) > 6 and len(np.unique(LABELS[negative])) > 6
    batches = list(sampler.epoch(0))
    assert len(batches) == len(sampler) == 4
    rounds = np.concatenate(batches).reshape(-1, 3)
    assert sorted(map(tuple, rounds)) == sorted(map(tuple, sampler.triplets))  # each once
    assert [b.tolist() for b in sampler.epoch(1)] != [b.tolist() for b in batches]


def test_pairs_are_half_positive_and_half_negative() -> None:
    positive, negative = true_pairs(20)
    sampler = GivenPairs(positive, negative[:7], batch_size=16, seed=0)
    for rows in sampler.epoch(2):
        tuples = sampler.tuples
        assert (LABELS[rows[tuples.pos_anchor]] == LABELS[rows[tuples.positive]]).all()
        assert (LABELS[rows[tuples.neg_anchor]] != LABELS[rows[tuples.negative]]).all()
        assert len(tuples.positive) == len(tuples.negative) == 4
    seen = np.concatenate([rows.reshape(-1, 2)[:4] for rows in sampler.epoch(0)])
    assert sorted(map(tuple, seen)) == sorted(map(tuple, positive))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: GivenTriplets([[0, 1]], batch_size=3, seed=0), "list of 3 row numbers each"),
        (lambda: GivenTriplets([[0, 1, -1]], batch_size=3, seed=0), "from 0"),
        (lambda: GivenTriplets([[0, 1, 2]], batch_size=32, seed=0), "not a multiple of 3; set it to 30"),
        (lambda: GivenTriplets.draw([0, 1, 2], 5, batch_size=3, seed=0), "a class with two samples"),
        (lambda: GivenPairs([[0, 1]], [[0, 2]], batch_size=2, seed=0), "not a multiple of 4; set it to 4"),
        (lambda: Weighted([0.0, 0.0], batch_size=2, seed=0), "at least one above 0"),
        (lambda: Weighted([1.0, np.nan], batch_size=2, seed=0), "finite numbers"),
        (lambda: Hierarchical(LABELS, KINDS[1:], batch_size=8, seed=0), "one of each per sample"),
        (lambda: Hierarchical(LABELS, KINDS, batch_size=12, seed=0), "set batch_size to 8"),
        (lambda: Hierarchical(LABELS, KINDS, batch_size=16, seed=0, super_classes=4), "lower super_classes"),
    ],
)
def test_mistakes_are_named(make, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        make()


def test_a_hierarchical_batch_has_classes_of_few_super_classes() -> None:
    sampler = Hierarchical(LABELS, KINDS, batch_size=24, seed=0, samples_per_class=4, super_classes=2)
    batches = list(sampler.epoch(0, 30))
    for rows in batches:
        assert len(set(rows.tolist())) == 24
        assert np.unique(LABELS[rows], return_counts=True)[1].tolist() == [4] * 6
        assert np.unique(KINDS[rows], return_counts=True)[1].tolist() == [12, 12]
    turns = np.bincount(KINDS[np.concatenate(batches)])
    assert np.ptp(turns) <= 12  # all super-classes equally often
    again = Hierarchical(LABELS, KINDS, batch_size=24, seed=0, samples_per_class=4, super_classes=2)
    assert [r.tolist() for r in islice(again.epoch(0, 30), 5, 8)] == [r.tolist() for r in batches[5:8]]


def test_a_small_super_class_takes_other_samples_of_its_classes() -> None:
    labels = np.repeat(np.arange(5), 8)
    kinds = np.where(labels == 4, 1, 0)  # one class alone in its super-class
    sampler = Hierarchical(labels, kinds, batch_size=16, seed=0, samples_per_class=4, super_classes=2)
    for rows in sampler.epoch(0, 10):
        alone = rows[kinds[rows] == 1]
        assert len(alone) == len(set(alone.tolist())) == 8


def test_weights_are_shares_of_the_draws() -> None:
    sampler = Weighted([1.0, 3.0, 0.0, 4.0], batch_size=400, seed=0)
    drawn = np.bincount(np.concatenate(list(sampler.epoch(0, 20))), minlength=4) / 8000
    np.testing.assert_allclose(drawn, [1 / 8, 3 / 8, 0, 1 / 2], atol=0.03)
    sampler.set_weights([0.0, 0.0, 2.0, 0.0])
    assert set(next(sampler.epoch(1)).tolist()) == {2}


def test_weights_of_tuples_are_those_of_pytorch_metric_learning() -> None:
    pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning.utils.loss_and_miner_utils import convert_to_weights

    labels, points = torch.from_numpy(LABELS), cloud()
    for name in ("hard", "multi_similarity"):
        tuples = lf.miners.create(name)(points, labels)
        theirs = convert_to_weights(tuples.indices, labels, dtype=torch.float64)
        np.testing.assert_allclose(tuple_weights(tuples, len(labels)), theirs.numpy())
    empty = lf.miners.Triplets(*(torch.zeros(0, dtype=torch.int64) for _ in range(3)))
    assert tuple_weights(empty, 3).tolist() == [1, 1, 1]
