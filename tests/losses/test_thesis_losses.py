"""The losses of "Metric Learning: A Deep Dive" by its formulas, on inner products of unit vectors."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield import losses, methods
from levelfield.config import Experiment
from levelfield.core.errors import UsageError
from levelfield.protocol.spec._resolve import _method

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])


@pytest.fixture
def vectors() -> Tensor:
    drawn = torch.randn(8, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return torch.nn.functional.normalize(drawn)


def options_of(name: str) -> dict[str, Any]:
    """Options of the preset's row, with the sum as the reduction."""
    experiment = Experiment.build(name="x", preset="deep-dive")
    method = _method(experiment, experiment.method(name))
    assert not method.space
    known = losses.registry[method.loss].parameters
    return {key: value for key, value in method.fixed.items() if key in known} | {"reduction": "sum"}


def pairs(*, same: bool) -> list[tuple[int, int]]:
    every = itertools.permutations(range(len(LABELS)), 2)
    return [(i, j) for i, j in every if bool(LABELS[i] == LABELS[j]) is same]


def test_contrastive(vectors: Tensor) -> None:
    s = vectors @ vectors.T
    printed = -sum(s[i, j] for i, j in pairs(same=True)) + sum(
        torch.relu(s[i, j] - 0.5) for i, j in pairs(same=False)
    )
    found = losses.create("contrastive", **options_of("contrastive"))(vectors, LABELS)
    # a constant of 1 for each positive pair has no gradient
    torch.testing.assert_close(found - len(pairs(same=True)), printed)


def test_triplet(vectors: Tensor) -> None:
    s = vectors @ vectors.T
    printed = sum(
        torch.relu(s[a, n] - s[a, p] + 0.1)
        for a, p in pairs(same=True)
        for n in range(len(LABELS))
        if LABELS[n] != LABELS[a]
    )
    found = losses.create("triplet", **options_of("triplet"))(vectors, LABELS)
    torch.testing.assert_close(found, torch.as_tensor(printed))


def test_lifted_structure(vectors: Tensor) -> None:
    s = vectors @ vectors.T
    printed = torch.zeros((), dtype=torch.float64)
    for i in range(len(LABELS)):
        positive = [0.5 - s[i, k] for a, k in pairs(same=True) if a == i]
        negative = [s[i, k] for a, k in pairs(same=False) if a == i]
        printed += torch.relu(
            torch.logsumexp(torch.stack(positive), 0) + torch.logsumexp(torch.stack(negative), 0)
        )
    found = losses.create("generalized_lifted", **options_of("lifted_structure"))(vectors, LABELS)
    torch.testing.assert_close(found, printed)


@pytest.mark.parametrize("name", ["contrastive", "triplet", "generalized_lifted"])
def test_gradients_of_cosines_are_right(name: str, vectors: Tensor) -> None:
    loss = losses.create(name, distance="cosine", reduction="sum")
    leaf = (2.0 * vectors).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, LABELS), (leaf,), eps=1e-7, atol=1e-5)


def test_our_method_and_the_metrics_of_sop() -> None:
    experiment = Experiment.build(name="x", preset="deep-dive", dataset={"name": "sop"})
    assert experiment.metrics[:4] == ("recall_at_1", "recall_at_10", "recall_at_100", "recall_at_1000")
    ours = _method(experiment, experiment.method("proxy_proxy"))
    assert (ours.fixed["variant"], ours.space) == (2, {})


@pytest.mark.parametrize(
    ("dataset", "betas"),
    [
        ("cub200", {0.6: 0.4, 1.2: 0.35}),
        ("cars196", {0.6: 0.35, 1.2: 0.35}),
        ("sop", {0.6: 0.15, 1.2: 0.15}),
    ],
)
def test_revisiting_trains_all_23_rows(dataset: str, betas: dict[float, float]) -> None:
    experiment = Experiment.build(name="x", preset="revisiting", dataset={"name": dataset})
    assert len(experiment.methods) == 23
    rows = [_method(experiment, experiment.method(name)) for name in ("r_margin", "r_margin_second")]
    assert {row.fixed["beta"]: row.fixed["miner.p_switch"] for row in rows} == betas
    assert all(not row.space for row in rows)


def test_a_method_without_published_values_on_a_dataset_is_refused() -> None:
    experiment = Experiment.build(name="x", preset="revisiting", dataset={"name": "inshop"})
    with pytest.raises(UsageError):
        _method(experiment, experiment.method("r_margin_second"))
    assert "r_margin_second" in methods.method_names()
