"""Lists of nearest negatives: the lists, the batches made of them, and when they are made anew."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.samplers.test_bank_samplers import cloud, full_bank

from levelfield import samplers
from levelfield.samplers.memory_bank import MemoryBank
from levelfield.samplers.neighbor_lists import nearest_negatives


def slow_lists(points: np.ndarray, labels: np.ndarray, count: int) -> list[list[int]]:
    units = points / np.linalg.norm(points, axis=1, keepdims=True)
    found = []
    for i in range(len(points)):
        others = [j for j in range(len(points)) if labels[j] != labels[i]]
        found.append(sorted(others, key=lambda j: -float(units[i] @ units[j]))[:count])
    return found


@pytest.mark.parametrize("count", [1, 4, 99])
def test_a_list_holds_the_nearest_samples_of_other_classes(count: int) -> None:
    points = np.random.default_rng(0).normal(size=(30, 6))
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(5), 6))
    found = nearest_negatives(torch.from_numpy(points), torch.from_numpy(labels), count)
    assert found.tolist() == slow_lists(points, labels, min(count, 24))


def test_chunks_do_not_change_the_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    points, labels = torch.from_numpy(cloud(50, 8)).double(), torch.arange(50) // 5
    whole = nearest_negatives(points, labels, 7)
    monkeypatch.setattr("levelfield.samplers.neighbor_lists.CHUNK", 8)
    assert torch.equal(nearest_negatives(points, labels, 7), whole)


def test_a_batch_is_anchors_with_negatives_of_their_lists() -> None:
    labels = np.arange(120) // 6
    points = cloud(120, 12, seed=2)
    sampler = samplers.NeighborLists(
        labels, batch_size=24, seed=0, samples_per_class=2, neighbors=10, negatives=2
    )
    sampler.attach(full_bank(points))
    lists = slow_lists(points.astype(np.float64), labels, 10)
    near = 0
    for rows in sampler.epoch(0, 20):
        assert len(set(rows.tolist())) == 24
        assert np.unique(labels[rows], return_counts=True)[1].tolist() == [2] * 12
        leads = rows[::2]
        assert (labels[leads] == labels[rows[1::2]]).all()
        anchor = leads[0]
        for lead in leads[1:]:  # a lead is a negative of the latest anchor, or the next anchor
            if lead in lists[anchor]:
                near += 1
            else:
                anchor = lead
    assert near > 20 * 12 / 3  # far more than the 8% of random leads


def test_lists_stay_until_their_time() -> None:
    labels, points = np.arange(60) // 5, cloud(60, 8)
    bank = full_bank(points)
    sampler = samplers.NeighborLists(labels, batch_size=8, seed=0, every=3)
    sampler.attach(bank)

    def epoch(number: int) -> list[list[int]]:
        return [rows.tolist() for rows in sampler.epoch(number, 4)]

    first = epoch(0)
    bank.update(np.arange(60), torch.from_numpy(cloud(60, 8, seed=5)))
    assert epoch(1) != first
    old = bank.frozen
    assert torch.equal(old, torch.from_numpy(points))
    epoch(2)
    assert bank.frozen is old
    again = MemoryBank(60, 8)
    again.load_state_dict(bank.state_dict())
    resumed = samplers.NeighborLists(labels, batch_size=8, seed=0, every=3)
    resumed.attach(again)
    assert [rows.tolist() for rows in resumed.epoch(2, 4)] == epoch(2)
    epoch(3)
    assert torch.equal(bank.frozen, torch.from_numpy(cloud(60, 8, seed=5)))
