"""S2SD equals the written-out formula, and has no gradient into branches and features."""

from __future__ import annotations

import math

import pytest
import torch

from levelfield import losses
from levelfield.train._s2sd import S2SDBranches, S2SDOptions, divergence


def draw(count, size, seed):
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_divergence(x, teacher, temperature):
    def rows(points):
        units = [row / row.norm() for row in points]
        for one in units:
            weights = [math.exp(float(one @ other) / temperature) for other in units]
            yield [weight / sum(weights) for weight in weights]

    total = 0.0
    for own, wanted in zip(rows(x), rows(teacher), strict=True):
        total += sum(w * math.log(w / p) for p, w in zip(own, wanted, strict=True))
    return total * temperature**2 / len(x)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_the_divergence_equals_the_loops_and_teaches_one_way(temperature):
    x, teacher = draw(7, 3, 0).requires_grad_(), draw(7, 5, 1).requires_grad_()
    value = divergence(x, teacher, temperature=temperature)
    assert value.item() == pytest.approx(slow_divergence(x.detach(), teacher.detach(), temperature))
    gradients = torch.autograd.grad(value, [x, teacher], allow_unused=True)
    assert gradients[0].any()
    assert [gradient is None for gradient in gradients] == [False, True]
    assert torch.autograd.gradcheck(lambda x: divergence(x, teacher, temperature=temperature), x)


@pytest.mark.parametrize("step", [3, 4])
def test_the_whole_equals_its_parts(step):
    options = S2SDOptions(
        weight=2.0, branches=2, width=6, temperature=0.5, feature_weight=7.0, feature_start=3
    )

    def make(width: int) -> torch.nn.Module:
        return losses.create("proxy_anchor", num_classes=3, embedding_size=width)

    branches = S2SDBranches(options, feature_size=5, make_loss=make, seed=0).double()
    assert [loss.embedding_size for loss in branches.losses] == [6, 12]
    x, features, labels = draw(8, 4, 0), draw(8, 5, 1), torch.arange(8) % 3
    value = branches(
        torch.tensor(3.0),
        x,
        features,
        labels,
        step=step,
        compute_loss=lambda loss, wide, labels: loss(wide, labels),
    )
    with torch.no_grad():
        wide = [network(features) for network in branches.networks]
        targets = [loss(w, labels).item() for loss, w in zip(branches.losses, wide, strict=True)]
        expected = (3 + sum(targets) / 2) / 2
        expected += 2.0 * sum(slow_divergence(x, w, 0.5) for w in wide) / 2
        expected += 7.0 * slow_divergence(x, features, 0.5) if step > 3 else 0
    assert value.item() == pytest.approx(expected)


def test_one_sample_and_an_empty_batch():
    for count in (0, 1):
        assert divergence(draw(count, 3, 0), draw(count, 4, 1)).item() == 0
