"""Properties of the batches of each label sampler."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.built_in import built_in_names

from levelfield import samplers
from levelfield.core.errors import UsageError

LABEL_SAMPLERS = ["balanced", "class_balanced", "random", "spc", "spc_r"]
quick = settings(max_examples=40, deadline=None)


def make_labels(sizes):
    return np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))


@pytest.mark.parametrize("name", LABEL_SAMPLERS)
def test_an_epoch_is_exact_and_depends_on_seed_and_number_only(name):
    labels = make_labels([5, 9, 4, 8, 6, 7])

    def epoch(seed, number, iterations=9):
        sampler = samplers.create(name, labels, batch_size=8, seed=seed)
        return [rows.tolist() for rows in sampler.epoch(number, iterations)]

    drawn = epoch(1, 2)
    assert [len(rows) for rows in drawn] == [8] * 9
    assert all(0 <= row < len(labels) for rows in drawn for row in rows)
    sampler = samplers.create(name, labels, batch_size=8, seed=1)
    list(sampler.epoch(0))
    assert [rows.tolist() for rows in islice(sampler.epoch(2, 9), 4, None)] == drawn[4:]
    assert drawn not in (epoch(1, 3), epoch(2, 2))
    assert len(list(sampler.epoch(0))) == len(labels) // 8
    assert list(sampler.epoch(0, 0)) == []
    with pytest.raises(UsageError, match="iterations"):
        list(sampler.epoch(0, -1))


def global_state():
    """Return the keys of numpy's global generator."""
    state = np.random.get_state(legacy=False)  # noqa: NPY002 - the global state is what must not change
    return state["state"]["key"].copy()


@pytest.mark.parametrize("name", LABEL_SAMPLERS)
def test_drawing_leaves_the_global_random_state_alone(name):
    before = global_state()
    list(samplers.create(name, make_labels([4] * 6), batch_size=4, seed=0).epoch(0))
    assert (before == global_state()).all()


@given(st.integers(3, 40), st.integers(1, 12), st.integers(1, 9))
@quick
def test_random_yields_each_sample_once_before_any_repeats(samples, batch_size, iterations):
    batch_size = min(batch_size, samples)
    drawn = list(
        samplers.create("random", np.zeros(samples, int), batch_size=batch_size, seed=0).epoch(0, iterations)
    )
    assert all(len(set(rows.tolist())) == batch_size for rows in drawn)
    assert np.ptp(np.bincount(np.concatenate(drawn), minlength=samples)) <= 1


@pytest.mark.parametrize("per_class", [2, 4, 8])
def test_spc_takes_different_classes_and_no_sample_twice(per_class):
    labels = make_labels([8, 9, 12, 20, 8, 10])
    sampler = samplers.create("spc", labels, batch_size=3 * per_class, seed=0, samples_per_class=per_class)
    for rows in sampler.epoch(0, 30):
        _, counts = np.unique(labels[rows], return_counts=True)
        assert counts.tolist() == [per_class] * 3
        assert len(set(rows.tolist())) == len(rows)


def test_spc_goes_through_a_class_before_it_repeats_a_sample():
    labels = make_labels([7, 7, 7])
    drawn = np.concatenate(list(samplers.create("spc", labels, batch_size=4, seed=0).epoch(0, 50)))
    counts = np.bincount(drawn, minlength=21)
    for label in range(3):
        assert np.ptp(counts[labels == label]) <= 1


def test_spc_draws_its_classes_independently_for_every_batch():
    labels = make_labels([4] * 10)
    drawn = list(samplers.create("spc", labels, batch_size=4, seed=0).epoch(0, 2000))
    turns = np.bincount(labels[np.concatenate(drawn)]) / 2
    assert (np.abs(turns - 400) < 80).all()  # 4 standard deviations
    assert np.ptp(turns) > 1  # unlike class_balanced


@given(st.lists(st.integers(1, 6), min_size=2, max_size=9), st.integers(2, 9), st.integers(0, 5))
@quick
def test_every_spc_r_batch_has_a_positive_pair(sizes, batch_size, seed):
    labels = make_labels([*sizes, 2])
    batch_size = min(batch_size, len(labels))
    for rows in samplers.create("spc_r", labels, batch_size=batch_size, seed=seed).epoch(0, 6):
        assert len(rows) == batch_size
        others = rows[:-1]
        assert labels[rows[-1]] in labels[others]
        assert len(set(others.tolist())) == batch_size - 1
        outside = set(range(len(labels))) - set(others.tolist())
        if any(labels[row] in labels[others] for row in outside):
            assert rows[-1] not in others


def test_balanced_uses_rare_classes_as_often_as_common_ones():
    labels = make_labels([100, 5, 20, 3])
    drawn = np.concatenate(list(samplers.create("balanced", labels, batch_size=16, seed=0).epoch(0, 500)))
    turns = np.bincount(labels[drawn])
    assert (np.abs(turns - 2000) < 160).all()  # 4 standard deviations
    for label in range(4):
        assert np.ptp(np.bincount(drawn, minlength=128)[labels == label]) <= 0.25 * turns[label]


@pytest.mark.parametrize(
    ("name", "labels", "batch_size", "message"),
    [
        ("random", [0, 1], 3, "batch_size 3 is larger than the training set"),
        ("spc_r", [0, 1, 2], 2, "two or more samples"),
        ("spc_r", [0, 0, 2], 1, "two or more samples"),
        ("spc", [0, 0, 1, 1], 8, "lower batch_size to 4"),
        ("sbc", [0, 0], 2, 'did you mean "spc"'),
    ],
)
def test_impossible_batches_are_errors(name, labels, batch_size, message):
    with pytest.raises(UsageError, match=message):
        samplers.create(name, labels, batch_size=batch_size, seed=0)


def test_every_card_is_complete():
    for name in built_in_names(samplers.registry):
        entry = samplers.registry[name]
        assert entry.card.summary
        assert bool(entry.card.paper) == bool(entry.card.year)
        assert entry.card.needs_bank == getattr(entry.target, "needs_bank", None)
