"""Clustering metrics: seeded k-means, and the high NMI of random embeddings."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from tests.oracles.metrics_structure import pair_f1

from levelfield.metrics import evaluate
from levelfield.metrics._clusters import contingency, kmeans
from levelfield.metrics.clustering import ami, f1, nmi


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def within(rows, clusters):
    """The sum of squared distances to the cluster means, which k-means makes small."""
    return sum(
        float((rows[clusters == c] - rows[clusters == c].mean(0)).square().sum()) for c in clusters.unique()
    )


@pytest.mark.parametrize(("classes", "per_class"), [(10_000, 4), (100, 10), (50, 50)])
def test_nmi_of_clusters_that_mix_all_classes_is_one_minus_log_s_over_log_c(classes, per_class):
    """The reality check's equation 7: each cluster holds S samples of S different classes."""
    labels = np.tile(np.arange(classes), per_class)
    clusters = (labels + np.repeat(np.arange(per_class), classes)) % classes
    value = nmi(contingency(labels, clusters))
    assert value == pytest.approx(1 - math.log(per_class) / math.log(classes))
    if classes == 10_000:
        assert round(100 * value, 1) == 84.9
    assert ami(contingency(labels, clusters)) < 0.02 or classes == 10_000


def test_f1_counts_pairs():
    random = np.random.default_rng(0)
    labels, clusters = random.integers(0, 4, 40), random.integers(0, 5, 40)
    assert f1(contingency(labels, clusters)) == pytest.approx(pair_f1(labels, clusters))


def test_clear_clusters_are_found():
    centers = 10 * torch.randn(8, 5, generator=seeded())
    labels = torch.arange(200) % 8
    rows = centers[labels] + 0.1 * torch.randn(200, 5, generator=seeded(1))
    found = max((kmeans(rows, 8, seeded(s)) for s in range(5)), key=lambda c: -within(rows, c))
    assert nmi(contingency(labels, found)) == pytest.approx(1.0)


def test_the_same_seed_gives_the_same_clusters():
    rows = torch.randn(300, 6, generator=seeded())
    assert torch.equal(kmeans(rows, 12, seeded(3)), kmeans(rows, 12, seeded(3)))
    assert not torch.equal(kmeans(rows, 12, seeded(3)), kmeans(rows, 12, seeded(4)))


def test_it_is_as_good_as_scikit_learn():
    rows = torch.randn(400, 8, generator=seeded())
    ours = np.mean([within(rows, kmeans(rows, 20, seeded(s))) for s in range(5)])
    theirs = np.mean([KMeans(20, n_init=1, random_state=s).fit(rows.numpy()).inertia_ for s in range(5)])
    assert ours < 1.03 * theirs


@pytest.mark.parametrize("k", [1, 3, 10])
def test_duplicates_and_as_many_clusters_as_samples_do_no_harm(k):
    rows = torch.tensor([[0.0, 1.0]] * 7 + [[1.0, 0.0]] * 3)
    clusters = kmeans(rows, k, seeded())
    assert clusters.shape == (10,)
    assert int(clusters.max()) < k


def test_more_centers_than_rounds_are_drawn_in_batches(monkeypatch):
    monkeypatch.setattr("levelfield.metrics._clusters.ROUNDS", 4)
    monkeypatch.setattr("levelfield.metrics._clusters.BLOCK_BYTES", 1000)
    rows = torch.randn(100, 3, generator=seeded())
    assert len(kmeans(rows, 30, seeded()).unique()) == 30


@pytest.mark.slow
def test_scores_are_means_over_seeds_with_their_spread():
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 20)
    rows = random.normal(size=(10, 4))[labels] + 0.7 * random.normal(size=(200, 4))
    one = evaluate(rows, labels, metrics=("nmi", "f1", "map_at_r"), cluster_seeds=1)
    assert one.spread == {}
    several = evaluate(rows, labels, metrics=("nmi", "f1", "map_at_r"), cluster_seeds=4)
    assert several.spread["nmi"] > 0
    assert set(several.spread) == {"nmi", "f1"}
    assert dict(several) == dict(evaluate(rows, labels, metrics=("nmi", "f1", "map_at_r"), cluster_seeds=4))
    other = evaluate(rows, labels, metrics=("nmi",), cluster_seeds=4, seed=1)
    assert other["nmi"] != several["nmi"]


def test_clusters_need_no_relevant_items():
    assert evaluate(np.eye(4), [0, 1, 2, 3], metrics=("nmi",), cluster_seeds=1)["nmi"] == 1.0
