from __future__ import annotations

import pytest
import torch
from torch import nn

from levelfield import losses, models
from levelfield.config import OptimizerSpec, ScheduleSpec, TrainingSpec
from levelfield.train._optim import create_optimizer, rate_factor, set_rates


def embedder() -> models.Embedder:
    return models.create_embedder(trunk=models.create_trunk("conv4", width=4, in_channels=1), size=8)


@pytest.mark.parametrize("name", ["rmsprop", "adam", "adamw", "sgd"])
def test_trunk_head_and_loss_learn_at_rates_of_their_own(name: str) -> None:
    spec = OptimizerSpec(name=name, lr=1e-4, head_lr=1e-3, weight_decay=0.1, loss_weight_decay=0.0)
    loss = losses.create("arcface", num_classes=5, embedding_size=8)
    optimizer = create_optimizer(spec, embedder=embedder(), loss=loss, loss_lr=0.5, train_trunk=True)
    found = {group["name"]: (group["lr"], group["weight_decay"]) for group in optimizer.param_groups}
    assert found == {"trunk": (1e-4, 0.1), "head": (1e-3, 0.1), "loss": (0.5, 0.0)}


def test_a_frozen_trunk_and_a_loss_without_parameters_have_no_group() -> None:
    optimizer = create_optimizer(
        OptimizerSpec(), embedder=embedder(), loss=losses.create("triplet"), loss_lr=1.0, train_trunk=False
    )
    assert [group["name"] for group in optimizer.param_groups] == ["head"]


def test_every_trainable_parameter_is_in_exactly_one_group() -> None:
    network, loss = embedder(), losses.create("soft_triple", num_classes=5, embedding_size=8)
    optimizer = create_optimizer(OptimizerSpec(), embedder=network, loss=loss, loss_lr=1.0, train_trunk=True)
    grouped = [id(p) for group in optimizer.param_groups for p in group["params"]]
    expected = [id(p) for p in (*network.parameters(), *loss.parameters())]
    assert sorted(grouped) == sorted(expected)


def test_the_schedule_is_a_function_of_the_epoch() -> None:
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([{"params": [parameter], "initial_lr": 2.0}], lr=2.0)
    step = ScheduleSpec(name="step", step_size=10, gamma=0.5)
    set_rates(optimizer, 21, schedule=step, training=TrainingSpec())
    assert optimizer.param_groups[0]["lr"] == 0.5
    cosine = ScheduleSpec(name="cosine")
    factors = [rate_factor(epoch, schedule=cosine, max_epochs=10) for epoch in range(1, 11)]
    assert factors[0] == 1.0 and factors == sorted(factors, reverse=True) and factors[-1] > 0
