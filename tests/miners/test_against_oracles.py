"""Every miner returns the tuples of its definition, on batches of every shape."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import miners as oracle

from levelfield import miners
from levelfield.core.geometry import bool_pair_masks, l2_normalize
from levelfield.miners import Pairs, Triplets
from levelfield.miners.distance_weighted import DistanceWeighted


@st.composite
def batches(draw):
    """Return points without ties and labels of any balance, also one class or one sample."""
    size = draw(st.integers(1, 14))
    labels = np.array(draw(st.lists(st.integers(0, 4), min_size=size, max_size=size)))
    points = np.random.default_rng(draw(st.integers(0, 10_000))).normal(size=(size, draw(st.integers(2, 9))))
    return points, labels


def mine(name, points, labels, **options):
    """Make a miner that works on raw points, if it can."""
    if "normalize" in miners.registry[name].parameters:
        options["normalize"] = False
    return miners.create(name, **options)(torch.from_numpy(points), torch.from_numpy(labels))


def as_set(anchor, *others):
    found = list(zip(*(column.tolist() for column in (anchor, *others)), strict=True))
    assert len(found) == len(set(found)), "a tuple is listed twice"
    return set(found)


def triplet_set(triplets: Triplets):
    return as_set(triplets.anchor, triplets.positive, triplets.negative)


def pair_sets(pairs: Pairs):
    return as_set(pairs.pos_anchor, pairs.positive), as_set(pairs.neg_anchor, pairs.negative)


exactly = settings(max_examples=60, deadline=None)


@given(batches())
@exactly
def test_all_lists_every_pair(batch):
    assert pair_sets(mine("all", *batch)) == oracle.all_pairs(batch[1])


@given(batches())
@exactly
def test_hard_takes_the_farthest_positive_and_the_nearest_negative(batch):
    assert triplet_set(mine("hard", *batch)) == oracle.hard(*batch)


@given(batches(), st.sampled_from(["semihard", "hard"]))
@exactly
def test_easy_positive_takes_the_nearest_positive(batch, negatives):
    found = triplet_set(mine("easy_positive", *batch, negatives=negatives))
    assert found == oracle.easy_positive(*batch, negatives=negatives)


@given(batches(), st.sampled_from(["all", "hard", "semihard", "easy"]), st.sampled_from([0.05, 0.3, 1.0]))
@exactly
def test_triplet_margin_finds_all_of_a_kind(batch, kind, margin):
    found = triplet_set(mine("triplet_margin", *batch, kind=kind, margin=margin))
    assert found == oracle.triplet_margin(*batch, kind=kind, margin=margin)


@given(batches(), st.sampled_from([5.0, 20.0, 45.0]))
@exactly
def test_angular_finds_all_above_the_angle(batch, angle):
    found = triplet_set(mine("angular", *batch, angle=angle))
    assert found == oracle.angular(*batch, angle=angle)


@given(batches(), st.sampled_from([0.01, 0.1, 0.5]))
@exactly
def test_multi_similarity_keeps_pairs_within_epsilon(batch, epsilon):
    found = pair_sets(mine("multi_similarity", *batch, epsilon=epsilon))
    assert found == oracle.multi_similarity(*batch, epsilon=epsilon)


@given(batches(), st.sampled_from([0.2, 1.0]), st.sampled_from([0.8, 2.0]))
@exactly
def test_pair_margin_keeps_pairs_beyond_the_margins(batch, pos_margin, neg_margin):
    found = pair_sets(mine("pair_margin", *batch, pos_margin=pos_margin, neg_margin=neg_margin))
    assert found == oracle.pair_margin(*batch, pos_margin=pos_margin, neg_margin=neg_margin)


@given(batches(), st.integers(0, 99))
@exactly
def test_random_draws_one_triplet_for_every_anchor_that_has_any(batch, seed):
    found = triplet_set(mine("random", *batch, seed=seed))
    allowed = set(oracle.all_triplets(batch[1]))
    assert found <= allowed
    assert Counter(a for a, _, _ in found) == Counter({a for a, _, _ in allowed})


@given(batches(), st.integers(0, 99))
@exactly
def test_softhard_draws_one_triplet_for_every_anchor_that_has_any(batch, seed):
    found = triplet_set(mine("softhard", *batch, seed=seed))
    allowed = oracle.softhard(*batch)
    assert found <= allowed
    assert Counter(a for a, _, _ in found) == Counter({a for a, _, _ in allowed})


@given(batches(), st.integers(0, 99), st.sampled_from([0.1, 0.5, 3.0]), st.booleans())
@exactly
def test_strict_semihard_draws_one_triplet_for_every_pair_that_has_any(batch, seed, margin, squared):
    found = triplet_set(mine("semihard", *batch, margin=margin, squared=squared, seed=seed))
    allowed = oracle.semihard_strict(*batch, margin=margin, squared=squared)
    assert found <= allowed
    assert Counter((a, p) for a, p, _ in found) == Counter({(a, p) for a, p, _ in allowed})


@given(batches(), st.integers(0, 99))
@exactly
def test_relaxed_semihard_draws_a_negative_beyond_a_random_positive(batch, seed):
    found = triplet_set(mine("semihard", *batch, mode="relaxed", seed=seed))
    allowed = oracle.semihard_relaxed(*batch)
    assert found <= allowed
    anchors = Counter(a for a, _, _ in found)
    assert all(count == 1 for count in anchors.values())
    for a in set(range(len(batch[1]))) - set(anchors):
        beyond = {p for anchor, p, _ in allowed if anchor == a}
        positives = oracle.positives_of(batch[1], a)
        assert not positives or set(positives) - beyond, "left out, though every positive has a negative"


@given(batches(), st.integers(0, 99), st.sampled_from(["strict", "relaxed", "softhard"]))
@exactly
def test_a_fallback_leaves_no_anchor_out_and_changes_nothing_else(batch, seed, kind):
    name, options = ("softhard", {}) if kind == "softhard" else ("semihard", {"mode": kind, "margin": 0.1})
    found = triplet_set(mine(name, *batch, fallback=True, seed=seed, **options))
    plain = triplet_set(mine(name, *batch, seed=seed, **options))
    everything = set(oracle.all_triplets(batch[1]))
    assert plain <= found <= everything
    key = 2 if kind == "strict" else 1  # one triplet per pair, or per anchor
    assert {triplet[:key] for triplet in found} == {triplet[:key] for triplet in everything}


def test_collapsed_classes_give_triplets_with_a_fallback_only():
    """Two collapsed classes far apart: no triplet is semi-hard or hard."""
    embeddings, labels = torch.eye(2).repeat_interleave(4, 0), torch.arange(2).repeat_interleave(4)
    for name in ("semihard", "softhard"):
        assert len(miners.create(name)(embeddings, labels).negative) == 0
        assert len(miners.create(name, fallback=True)(embeddings, labels).negative) > 0


@given(batches(), st.integers(0, 99))
@exactly
def test_distance_weighted_draws_one_negative_within_the_limit_for_every_pair(batch, seed):
    found = triplet_set(mine("distance_weighted", *batch, seed=seed))
    chances = oracle.distance_weights(*batch, cutoff=0.5, limit=1.4)
    assert all(n in chances[a] for a, _, n in found)
    expected = {(a, p) for a in chances for p in oracle.positives_of(batch[1], a)}
    assert Counter((a, p) for a, p, _ in found) == Counter(expected)


@pytest.mark.parametrize("dimensions", [2, 8, 128, 512])
def test_the_probabilities_of_distance_weighted_are_the_inverse_density(dimensions):
    random = np.random.default_rng(0)
    points = random.normal(size=(30, dimensions)) + random.normal(size=dimensions) * 1.2
    labels = np.arange(30) % 6
    miner = miners.create("distance_weighted")
    _, negative = bool_pair_masks(torch.from_numpy(labels))
    assert isinstance(miner, DistanceWeighted)
    weights = miner.weights(l2_normalize(torch.from_numpy(points)), negative)
    shares = (weights / weights.sum(dim=1, keepdim=True)).nan_to_num(0).numpy()
    expected = np.zeros_like(shares)
    for a, chances in oracle.distance_weights(points, labels, cutoff=0.5, limit=1.4).items():
        for n, chance in chances.items():
            expected[a, n] = chance
    np.testing.assert_allclose(shares, expected, atol=1e-9)
    assert expected.any()


@given(batches(), st.integers(0, 99))
@exactly
def test_rho_switch_changes_a_triplet_as_the_paper_says_or_leaves_it(batch, seed):
    inner = mine("hard", *batch)
    kept = list(zip(inner.anchor.tolist(), inner.positive.tolist(), inner.negative.tolist(), strict=True))
    found = mine("rho_switch", *batch, miner=miners.create("hard", normalize=False), p_switch=0.5, seed=seed)
    changed = zip(found.anchor.tolist(), found.positive.tolist(), found.negative.tolist(), strict=True)
    for triplet, allowed in zip(changed, oracle.rho_switch(kept), strict=True):
        assert triplet in allowed


@pytest.mark.parametrize("name", miners.registry.names())
def test_every_miner_has_an_oracle(name):
    oracles = [each for each in vars(oracle) if each == name or each.startswith(f"{name}_")]
    exceptions = {"all": "all_pairs", "random": "all_triplets", "distance_weighted": "distance_weights"}
    assert oracles or exceptions.get(name) in vars(oracle), f"write {name} in tests/oracles"
