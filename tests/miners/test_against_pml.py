"""Comparison with pytorch-metric-learning: the same tuples, or a known difference."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from levelfield import miners
from levelfield.miners import Triplets

pml = pytest.importorskip("pytorch_metric_learning.miners")


def batch(seed, size=48, dimensions=8):
    generator = torch.Generator().manual_seed(seed)
    embeddings = F.normalize(torch.randn(size, dimensions, generator=generator, dtype=torch.float64) + 0.5)
    return embeddings, torch.randint(0, 12, (size,), generator=generator)


def ours(name, embeddings, labels, **options):
    found = miners.create(name, **options)(embeddings, labels)
    return list(found.indices)


def rows(*columns):
    return set(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "options", "theirs"),
    [
        ("hard", {}, pml.BatchHardMiner),
        ("angular", {"angle": 20.0}, lambda: pml.AngularMiner(angle=20)),
        *[
            (
                "triplet_margin",
                {"kind": kind, "margin": 0.15},
                lambda kind=kind: pml.TripletMarginMiner(0.15, kind),
            )
            for kind in ("all", "hard", "semihard", "easy")
        ],
    ],
)
def test_the_same_triplets(name, options, theirs, seed):
    embeddings, labels = batch(seed)
    assert rows(*ours(name, embeddings, labels, **options)) == rows(*theirs()(embeddings, labels))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "options", "theirs"),
    [
        ("multi_similarity", {"epsilon": 0.1}, lambda: pml.MultiSimilarityMiner(epsilon=0.1)),
        ("pair_margin", {}, lambda: pml.PairMarginMiner(pos_margin=0.2, neg_margin=0.8)),
        ("easy_positive", {}, lambda: pml.BatchEasyHardMiner("easy", "semihard")),
        ("easy_positive", {"negatives": "hard"}, lambda: pml.BatchEasyHardMiner("easy", "hard")),
    ],
)
def test_the_same_pairs(name, options, theirs, seed):
    embeddings, labels = batch(seed)
    found = ours(name, embeddings, labels, **options)
    if len(found) == 3:
        found = [found[0], found[1], found[0], found[2]]
    a1, p, a2, n = theirs()(embeddings, labels)
    assert rows(*found[:2]) == rows(a1, p)
    assert rows(*found[2:]) == rows(a2, n)


def test_distance_weighted_keeps_anchors_that_one_scale_for_the_batch_would_lose():
    """Theirs divides by the largest weight of the batch; in 512 dimensions some weights underflow."""
    generator = torch.Generator().manual_seed(0)
    center = torch.randn(1, 512, generator=generator)
    near = center + 0.2 * torch.randn(8, 512, generator=generator)
    far = torch.randn(8, 512, generator=generator) + 0.4 * torch.randn(1, 512, generator=generator)
    embeddings, labels = F.normalize(torch.cat([near, far])), torch.arange(16) // 2
    found = miners.create("distance_weighted")(embeddings, labels)
    assert isinstance(found, Triplets) and set(found.anchor.tolist()) == set(range(16))
    theirs = pml.DistanceWeightedMiner(cutoff=0.5, nonzero_loss_cutoff=1.4)(embeddings, labels)
    assert not set(theirs[0].tolist()) & set(range(8, 16))
