"""Samplers are PyTorch batch samplers: they iterate, have a length, and ``set_epoch`` changes the batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers.built_in import built_in_names
from torch.utils.data import DataLoader, TensorDataset

import levelfield as lf
from levelfield import samplers
from levelfield.core.deprecation import LevelfieldDeprecationWarning
from levelfield.data import transforms
from levelfield.samplers.htl import AnchorNeighbor

LABELS = np.repeat(np.arange(6), [4, 4, 5, 6, 7, 9])
WITHOUT_BANK = ["balanced", "class_balanced", "random", "spc", "spc_r"]


def test_a_dataloader_takes_a_sampler_and_set_epoch_changes_the_batches() -> None:
    sampler = lf.samplers.MPerClass(LABELS, batch_size=8, samples_per_class=2, seed=0)
    dataset = TensorDataset(torch.arange(len(LABELS)), torch.from_numpy(LABELS))
    loader = DataLoader(dataset, batch_sampler=sampler)
    assert len(loader) == len(sampler) == len(LABELS) // 8

    def epoch(number: int) -> list[list[int]]:
        sampler.set_epoch(number)
        batches = list(loader)
        for rows, labels in batches:
            assert torch.equal(labels, torch.from_numpy(LABELS)[rows])
            assert labels.unique(return_counts=True)[1].tolist() == [2] * 4
        return [rows.tolist() for rows, _ in batches]

    first = epoch(0)
    assert epoch(1) != first
    assert epoch(0) == first
    assert first == [rows.tolist() for rows in sampler.epoch(0)]


@pytest.mark.parametrize("name", WITHOUT_BANK)
@pytest.mark.parametrize("samples", [8, 20, 35])
def test_the_length_is_the_number_of_batches(name: str, samples: int) -> None:
    sampler = samplers.create(name, np.arange(samples) // 2, batch_size=8, seed=0, **_options(name))
    batches = list(sampler)
    assert len(sampler) == len(batches) == samples // 8
    assert all(isinstance(row, int) for rows in batches for row in rows)


def _options(name: str) -> dict[str, int]:
    return {"samples_per_class": 2} if name in ("class_balanced", "spc") else {}


def test_all_samplers_without_a_bank_are_tested_here() -> None:
    own = built_in_names(samplers.registry)
    assert [name for name in own if not samplers.registry[name].card.needs_bank] == WITHOUT_BANK


def test_old_option_names_are_accepted_with_a_warning() -> None:
    options = {"neighbourhood": 2}  # old spelling
    with pytest.warns(LevelfieldDeprecationWarning, match="is now called neighborhood"):
        sampler = samplers.create("htl", LABELS, batch_size=8, seed=0, **options)
    assert isinstance(sampler, AnchorNeighbor) and sampler.neighborhood == 2
    with pytest.warns(LevelfieldDeprecationWarning, match="is now called gray"):
        transforms.create("adv", train=True, **{"grey": 0.5})  # old spelling
