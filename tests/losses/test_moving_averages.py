"""Losses with moving averages: updates, and exact continuation from a saved state."""

from __future__ import annotations

import statistics

import pytest
import torch
from tests.oracles import losses_classification as oracles

from levelfield import losses

CLASSES, SIZE = 4, 6
NAMES = ["adaface", "curricularface"]


def make(name, **options):
    return losses.create(name, num_classes=CLASSES, embedding_size=SIZE, **options).double()


def batches(number, *, length=1.0):
    generator = torch.Generator().manual_seed(1)
    for _ in range(number):
        x = torch.randn(8, SIZE, generator=generator, dtype=torch.float64) * length
        yield x.requires_grad_(), torch.randint(CLASSES, (8,), generator=generator)


def assert_equals(loss, oracle, x, labels, **options):
    value = loss(x, labels)
    expected = oracle(x, labels, loss.weights, **options)
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-9)
    inputs = [x, loss.weights]
    gradients, wanted = torch.autograd.grad(value, inputs), torch.autograd.grad(expected, inputs)
    torch.testing.assert_close(gradients, wanted, rtol=1e-7, atol=1e-8)


def test_curricularface_moves_its_hardness_before_it_uses_it():
    loss, hardness = make("curricularface", momentum=0.9), 0.0
    for x, labels in batches(5):
        own = [oracles.cosine(a, loss.weights[y]).item() for a, y in zip(x, labels, strict=True)]
        hardness = 0.9 * hardness + 0.1 * sum(own) / len(own)
        assert_equals(loss, oracles.curricularface, x, labels, margin=28.6, scale=64.0, hardness=hardness)
        assert loss.hardness.item() == pytest.approx(hardness, rel=1e-12)
    assert hardness != 0


def test_adaface_standardizes_lengths_by_averages_that_it_moves_first():
    loss, mean, std = make("adaface", momentum=0.9), 20.0, 100.0
    for x, labels in batches(5, length=8.0):
        lengths = [min(a.norm().item(), 100.0) for a in x]
        mean, std = 0.9 * mean + 0.1 * statistics.mean(lengths), 0.9 * std + 0.1 * statistics.stdev(lengths)
        options = {"margin": 0.4, "concentration": 0.333, "scale": 64.0}
        assert_equals(loss, oracles.adaface, x, labels, **options, mean=mean, std=std)
        assert loss.mean_length.item() == pytest.approx(mean, rel=1e-12)
        assert loss.std_length.item() == pytest.approx(std, rel=1e-12)


def test_adaface_takes_no_spread_from_one_sample():
    loss, (x, labels) = make("adaface"), next(batches(1))
    loss(x[:1], labels[:1])
    assert loss.std_length == 100
    assert loss.mean_length != 20


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_leaves_the_averages_alone(name):
    loss = make(name).eval()
    before = {key: value.clone() for key, value in loss.state_dict().items()}
    for x, labels in batches(2):
        loss(x, labels)
    assert all(torch.equal(before[key], value) for key, value in loss.state_dict().items())


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_loss_goes_on_to_the_last_bit(name):
    whole, first, second = make(name).float(), make(name).float(), make(name, seed=5).float()
    steps = [(x.detach().float(), labels) for x, labels in batches(6, length=8.0)]
    values = [whole(*step).item() for step in steps]
    for step in steps[:3]:
        first(*step)
    second.load_state_dict(first.state_dict())
    assert [second(*step).item() for step in steps[3:]] == values[3:]
    forgetful = make(name).float()
    assert [forgetful(*step).item() for step in steps[3:]] != values[3:]


@pytest.mark.parametrize("name", NAMES)
def test_two_calls_before_one_backward(name):
    loss, (x, labels) = make(name), next(batches(1))
    (loss(x, labels) + loss(x, labels.flip(0))).backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_sample_moves_nothing(name):
    loss = make(name)
    before = {key: value.clone() for key, value in loss.state_dict().items()}
    assert loss(torch.zeros(0, SIZE), torch.zeros(0, dtype=torch.int64)) == 0
    assert all(torch.equal(before[key], value) for key, value in loss.state_dict().items())
