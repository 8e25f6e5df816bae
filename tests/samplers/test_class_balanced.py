"""Batches of C x M samples: shape, exact epochs, dependence on seed and epoch only."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield import samplers
from levelfield.core.errors import UsageError

SIZES = st.lists(st.integers(1, 9), min_size=4, max_size=12)


def make_labels(sizes: list[int]) -> np.ndarray:
    labels = np.repeat(np.arange(len(sizes)) * 3, sizes)  # class ids need not be 0..C-1
    return np.random.default_rng(0).permutation(labels)


@given(SIZES, st.integers(1, 4), st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_every_batch_has_c_classes_with_m_samples(sizes, classes, samples, epoch):
    labels = make_labels(sizes)
    sampler = samplers.create(
        "class_balanced", labels, batch_size=classes * samples, seed=1, samples_per_class=samples
    )
    drawn = list(sampler.epoch(epoch, 10))
    assert len(drawn) == 10
    for rows in drawn:
        found, counts = np.unique(labels[rows], return_counts=True)
        assert len(found) == classes
        assert (counts == samples).all()
        for label in found:
            of_class = rows[labels[rows] == label]
            assert len(np.unique(of_class)) == min(samples, (labels == label).sum())


@given(SIZES, st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_counts_of_classes_and_of_samples_differ_by_at_most_one(sizes, classes, samples):
    labels = make_labels([max(size, samples) for size in sizes])
    sampler = samplers.create(
        "class_balanced", labels, batch_size=classes * samples, seed=1, samples_per_class=samples
    )
    rows = np.concatenate(list(sampler.epoch(0, 17)))
    turns = np.array([(labels[rows] == label).sum() for label in np.unique(labels)])
    assert np.ptp(turns) in (0, samples)
    counts = np.bincount(rows, minlength=len(labels))
    for label in np.unique(labels):
        assert np.ptp(counts[labels == label]) <= 1


def test_an_epoch_depends_on_seed_and_number_only():
    labels = make_labels([5] * 8)

    def epoch(seed, number, iterations=6):
        sampler = samplers.create("class_balanced", labels, batch_size=8, seed=seed, samples_per_class=2)
        return [rows.tolist() for rows in sampler.epoch(number, iterations)]

    sampler = samplers.create("class_balanced", labels, batch_size=8, seed=3, samples_per_class=2)
    list(sampler.epoch(0, 4))  # earlier draws must not matter
    resumed = [rows.tolist() for rows in islice(sampler.epoch(1, 6), 2, None)]
    assert resumed == epoch(3, 1)[2:]
    assert epoch(3, 1, 4) == epoch(3, 1)[:4]
    assert epoch(3, 1) != epoch(3, 2)
    assert epoch(3, 1) != epoch(4, 1)


def test_without_iterations_an_epoch_is_one_pass():
    labels = make_labels([5] * 8)
    sampler = samplers.create("class_balanced", labels, batch_size=8, seed=0, samples_per_class=4)
    assert len(list(sampler.epoch(0))) == 5


def test_thirty_two_by_one_has_one_sample_of_each_class():
    labels = make_labels([3] * 40)
    sampler = samplers.create("class_balanced", labels, batch_size=32, seed=0, samples_per_class=1)
    for rows in sampler.epoch(0, 5):
        assert len(np.unique(labels[rows])) == 32


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([0, 0, 1, 1], {"batch_size": 12, "samples_per_class": 4}, "lower batch_size to 8"),
        ([0, 0, 1, 1], {"batch_size": 6, "samples_per_class": 4}, "set batch_size to 4"),
        (
            [0, 0, 1, 1],
            {"batch_size": 4, "samples_per_class": 0},
            "samples_per_class = 0, .* whole number from 1",
        ),
        ([0, 0, 1, 1], {"batch_size": 0}, "batch_size must be at least 1"),
        ([], {"batch_size": 4}, "labels must be"),
        ([0.5, 1.5], {"batch_size": 4}, "labels must be"),
        ([0, 1], {"batch_size": 2, "per_class": 1}, "samples_per_class"),
    ],
)
def test_impossible_batches_are_errors_with_a_remedy(labels, options, message):
    with pytest.raises(UsageError, match=message):
        samplers.create("class_balanced", labels, seed=0, **options)
