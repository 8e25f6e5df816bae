"""Samplers with a memory bank: correct criteria, better than random batches, and correct rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import samplers as oracle

from levelfield import samplers
from levelfield.core.errors import RunError, UsageError
from levelfield.samplers._bank_samplers import BankSampler
from levelfield.samplers._groups import count_groups, draw_groups
from levelfield.samplers.ddm import distance_histogram_gaps
from levelfield.samplers.frd import frechet_distances
from levelfield.samplers.gc import greedy_coreset
from levelfield.samplers.htl import class_distances, neighborhoods
from levelfield.samplers.memory_bank import MemoryBank

tensor = torch.from_numpy
EMBEDDED = ["ddm", "frd", "gc", "htl", "neighbor_lists"]


def cloud(points, dimensions, seed=0):
    random = np.random.default_rng(seed)
    centers = random.normal(size=(6, dimensions))
    return (centers[random.integers(6, size=points)] + 0.5 * random.normal(size=(points, dimensions))).astype(
        np.float32
    )


def candidates(name, count):
    """Return the size of the candidate set, for samplers that have one."""
    return {} if name in ("htl", "neighbor_lists") else {"candidate_set": count}


def bank_sampler(name, labels, **options):
    sampler = samplers.create(name, labels, **options)
    assert isinstance(sampler, BankSampler)
    return sampler


def full_bank(points):
    bank = MemoryBank(len(points), points.shape[1])
    bank.update(np.arange(len(points)), torch.from_numpy(points))
    return bank


@pytest.mark.parametrize("seed", range(5))
def test_the_greedy_coreset_is_the_farthest_point_traversal(seed):
    points = cloud(60, 5, seed)
    assert greedy_coreset(tensor(points[:, None]), 12, first=seed).tolist() == oracle.greedy_coreset(
        points, 12, seed
    )


def test_a_coreset_of_duplicates_never_chooses_a_group_twice():
    assert sorted(greedy_coreset(torch.ones(6, 2, 3), 6).tolist()) == list(range(6))


@given(st.integers(2, 30), st.integers(1, 6), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
@pytest.mark.filterwarnings("ignore:Matrix is singular")
def test_the_frechet_distance_is_that_of_the_matrix_square_root(size, dimensions, seed):
    points = cloud(50, dimensions + 1, seed)
    batch = np.random.default_rng(seed).permutation(50)[:size]
    # A singular product makes the square root of the oracle imprecise.
    found = frechet_distances(tensor(points), tensor(batch[None])).item()
    assert found == pytest.approx(
        oracle.frechet_distance(points, batch), abs=2e-3 if size <= dimensions + 1 else 1e-6
    )


def test_the_frechet_distance_of_the_set_to_itself_is_zero():
    points = cloud(80, 16)
    found = frechet_distances(tensor(points), torch.arange(80)[None]).item()
    assert found == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_gap_is_the_wasserstein_distance_up_to_the_width_of_a_bin(seed):
    points = cloud(40, 6, seed)
    batch = np.random.default_rng(seed).permutation(40)[:10]
    gap = distance_histogram_gaps(tensor(points), tensor(batch[None]), bins=2000).item()
    assert gap == pytest.approx(oracle.wasserstein_of_distances(points, batch), abs=0.02)


def test_the_distance_gap_knows_where_the_bins_are():
    """By bin heights alone, both batches would have the same distance to the set."""
    line = np.concatenate([np.zeros(20), np.ones(20), [1.3, 5.0]])[:, None].astype(np.float32)
    near, far = distance_histogram_gaps(tensor(line), torch.tensor([[0, 40], [0, 41]]))
    assert near < far / 3


def test_collapsed_embeddings_work():
    points = torch.ones(20, 4)
    candidates = torch.arange(10).reshape(2, 5)
    for score in (distance_histogram_gaps, frechet_distances):
        assert np.allclose(score(points, candidates), 0)


@pytest.mark.parametrize("per_class", [1, 2])
@pytest.mark.parametrize(
    ("name", "criterion"),
    [
        ("gc", lambda points, rows: oracle.covering_radius(points, rows.tolist())),
        ("ddm", oracle.wasserstein_of_distances),
        ("frd", lambda points, rows: frechet_distances(tensor(points), tensor(rows[None])).item()),
    ],
)
def test_the_chosen_batch_is_better_than_random_by_its_own_criterion(name, criterion, per_class):
    points = cloud(120, 8)
    labels = np.arange(120) // 4
    sampler = bank_sampler(
        name, labels, batch_size=24, seed=0, samples_per_class=per_class, candidate_set=120
    )
    sampler.attach(full_bank(points))
    chosen = [criterion(points, rows) for rows in sampler.epoch(0, 8)]
    random = np.random.default_rng(1)
    shuffled = (random.permutation(120) for _ in range(8))
    unchosen = [
        criterion(points, draw_groups(order, labels, size=per_class, count=24 // per_class).ravel())
        for order in shuffled
    ]
    assert max(chosen) < np.median(unchosen)
    assert np.mean(chosen) < 0.85 * np.mean(unchosen)


@pytest.mark.parametrize("name", EMBEDDED)
def test_rows_of_the_bank_are_the_images_that_were_embedded(name):
    images, network = cloud(60, 7), np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    sampler, bank = bank_sampler(name, np.arange(60) // 4, batch_size=8, seed=0), MemoryBank(60, 3)
    sampler.attach(bank)
    for rows in sampler.epoch(0, 20):
        bank.update(rows, torch.from_numpy(images[rows] @ network))
    assert bank.known.all()
    assert np.allclose(bank.embeddings.numpy(), images @ network, atol=1e-5)


def test_the_coreset_contains_the_rows_of_the_outliers():
    points = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32) * 0.01
    outliers = np.arange(7, 200, 10)
    points[outliers] += np.eye(3, dtype=np.float32)[np.arange(20) % 3] * np.linspace(5, 9, 20)[:, None]
    sampler = bank_sampler("gc", np.zeros(200, int), batch_size=21, seed=0, samples_per_class=1)
    sampler.attach(full_bank(points))
    for rows in sampler.epoch(0, 3):
        assert set(outliers.tolist()) <= set(rows.tolist())


@pytest.mark.parametrize("name", EMBEDDED)
@pytest.mark.parametrize("per_class", [1, 2, 4])
def test_batches_are_groups_of_one_class(name, per_class):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(30), 9))
    sampler = bank_sampler(
        name, labels, batch_size=16, seed=0, samples_per_class=per_class, **candidates(name, 64)
    )
    sampler.attach(full_bank(cloud(270, 5)))
    for rows in sampler.epoch(0, 5):
        assert len(set(rows.tolist())) == 16
        assert (np.unique(labels[rows], return_counts=True)[1] % per_class == 0).all()


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_batch_depends_on_seed_epoch_iteration_and_bank_only(name):
    labels = np.arange(90) // 3
    points = cloud(90, 5)

    def batch(seed=0, epoch=1, iteration=3, points=points):
        sampler = bank_sampler(name, labels, batch_size=12, seed=seed, **candidates(name, 60))
        sampler.attach(full_bank(points))
        return list(sampler.epoch(epoch, 4))[iteration].tolist()

    sampler = bank_sampler(name, labels, batch_size=12, seed=0, **candidates(name, 60))
    sampler.attach(full_bank(points))
    assert sampler.batch(1, 3).tolist() == batch()
    assert batch() == batch()
    assert batch() != batch(seed=1)
    assert batch() != batch(epoch=2)
    assert batch() != batch(iteration=2)
    assert batch() != batch(points=cloud(90, 5, seed=1))


@pytest.mark.parametrize("name", EMBEDDED)
def test_samples_without_an_embedding_come_first(name):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(15), 5))
    sampler, bank = bank_sampler(name, labels, batch_size=10, seed=0), MemoryBank(75, 4)
    sampler.attach(bank)
    seen = set()
    for iteration, rows in enumerate(sampler.epoch(0, 12)):
        assert len(set(rows.tolist())) == 10
        assert (np.unique(labels[rows], return_counts=True)[1] % 2 == 0).all()
        seen |= set(rows.tolist())
        bank.update(rows, torch.randn(10, 4, generator=torch.Generator().manual_seed(iteration)))
        if len(seen) == 75:
            break
    assert seen == set(range(75))
    assert iteration <= 9
    assert bank.known.all()


def test_groups_of_small_classes_repeat_their_samples():
    labels = np.array([0, 0, 0, 1])
    assert count_groups(labels, 2) == 2
    groups = draw_groups(np.array([3, 0, 1, 2]), labels, size=2, count=9)
    assert groups.tolist() == [[3, 3], [0, 1]]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_groups_are_of_one_class_and_do_not_overlap(labels, size, seed):
    class_of = np.unique(labels, return_inverse=True)[1]
    order = np.random.default_rng(seed).permutation(len(labels))
    groups = draw_groups(order, class_of, size=size, count=len(labels))
    assert len(groups) == count_groups(class_of, size)
    for group in groups:
        assert len(set(class_of[group])) == 1
        assert len(set(group.tolist())) == min(size, (class_of == class_of[group[0]]).sum())
    distinct = [row for group in groups for row in set(group.tolist())]
    assert len(distinct) == len(set(distinct))
    first = [int(np.flatnonzero(order == group[0])[0]) for group in groups]
    assert first == sorted(first)


def test_misuse_is_an_error():
    labels = [0, 0, 1, 1]
    sampler = bank_sampler("gc", labels, batch_size=4, seed=0)
    with pytest.raises(RunError, match="attach"):
        next(sampler.epoch(0))
    with pytest.raises(UsageError, match="memory bank has 5 samples"):
        sampler.attach(MemoryBank(5, 2))
    with pytest.raises(UsageError, match="lower batch_size to 4"):
        samplers.create("gc", labels, batch_size=6, seed=0)
    with pytest.raises(UsageError, match="candidate_set 3"):
        samplers.create("frd", labels, batch_size=4, seed=0, candidate_set=3)
    with pytest.raises(UsageError, match="num_candidates"):
        samplers.create("ddm", labels, batch_size=4, seed=0, num_candidates=0)


def slow_class_distance(points, labels, one, other):
    """Return the mean over all pairs of a sample of one class and a sample of the other."""
    units = points / np.linalg.norm(points, axis=1, keepdims=True)
    gaps = [((p - q) ** 2).sum() for p in units[labels == one] for q in units[labels == other]]
    return sum(gaps) / len(gaps)


def test_distances_of_classes_are_means_over_pairs():
    labels, points = np.random.default_rng(0).permutation(np.repeat(np.arange(5), 6)), cloud(30, 4)
    found = class_distances(tensor(points), tensor(labels), 5)
    expected = [[slow_class_distance(points, labels, i, j) for j in range(5)] for i in range(5)]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_neighborhood_is_an_anchor_and_its_nearest_classes_that_are_free(seed):
    random = np.random.default_rng(seed)
    gaps = random.random((9, 9))
    gaps, order = gaps + gaps.T, random.permutation(9)
    expected = []
    for anchor in order.tolist():
        if anchor not in expected:
            others = [c for c in range(9) if c not in expected and c != anchor]
            expected += [anchor, *sorted(others, key=lambda c: gaps[anchor, c])[:2]]
    assert neighborhoods(tensor(gaps), order, count=7, size=3).tolist() == expected[:7]


def test_htl_puts_close_classes_into_one_batch():
    """Classes 2k and 2k + 1 have identical embeddings, so they share a batch."""
    labels = np.arange(160) // 8
    points = np.eye(10, dtype=np.float32)[labels // 2] + 0.01 * cloud(160, 10)
    sampler = bank_sampler("htl", labels, batch_size=16, seed=0, samples_per_class=4, neighborhood=2)
    sampler.attach(full_bank(points))
    for rows in sampler.epoch(0, 10):
        classes = np.unique(labels[rows])
        assert len(classes) == 4
        assert len(np.unique(classes // 2)) == 2
