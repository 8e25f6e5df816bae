"""Optimizer and learning-rate schedule, with separate rates for trunk, head and loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from levelfield import losses
from levelfield.config import OptimizerSpec, ScheduleSpec, TrainingSpec
from levelfield.models import Embedder


class ParameterGroup(NamedTuple):
    """Parameters of a loss, a regularizer or branches, with their learning rate.

    Attributes:
        name: Name of the group.
        parameters: Parameters to train.
        lr: Learning rate; None for that of the network, with its weight decay.
    """

    name: str
    parameters: list[nn.Parameter]
    lr: float | None


def create_optimizer(
    spec: OptimizerSpec,
    *,
    embedder: Embedder,
    loss: nn.Module,
    loss_lr: float,
    train_trunk: bool,
    others: Iterable[ParameterGroup] = (),
) -> torch.optim.Optimizer:
    """Return an optimizer with groups for trunk, head and loss, and one for each of ``others``.

    Groups without parameters are left out. The loss has its own weight decay, because decaying proxies or a
    learned margin changes the method, not the network.
    """
    own = embedder.parameter_groups()
    head_lr = spec.lr if spec.head_lr is None else spec.head_lr
    groups = [
        _group("trunk", own["trunk"] if train_trunk else [], spec.lr, spec.weight_decay),
        _group("head", own["head"], head_lr, spec.weight_decay),
    ]
    for name, parameters, lr in [*loss_parameter_groups(loss, loss_lr), *others]:
        rate, decay = (spec.lr, spec.weight_decay) if lr is None else (lr, spec.loss_weight_decay)
        groups.append(_group(name, parameters, rate, decay))
    groups = [group for group in groups if group["params"]]
    match spec.name:
        case "rmsprop":
            return torch.optim.RMSprop(groups, lr=spec.lr, momentum=spec.momentum)
        case "sgd":
            return torch.optim.SGD(groups, lr=spec.lr, momentum=spec.momentum, fused=True)
        case "adam":
            return torch.optim.Adam(groups, lr=spec.lr, fused=True)
        case "adamw":
            return torch.optim.AdamW(groups, lr=spec.lr, fused=True)


def loss_parameter_groups(loss: nn.Module, loss_lr: float) -> list[ParameterGroup]:
    """Return the trainable parameters of a loss with their rates; one rate if it is not a levelfield loss."""
    rates = (
        loss.parameters_with_lr(loss_lr)
        if isinstance(loss, losses.Loss | losses.WeightedSum)
        else [(list(loss.parameters()), loss_lr)]
    )
    return [
        ParameterGroup("loss", [p for p in parameters if p.requires_grad], lr) for parameters, lr in rates
    ]


def _group(name: str, parameters: Iterable[nn.Parameter], lr: float, weight_decay: float) -> dict[str, Any]:
    return {
        "name": name,
        "params": list(parameters),
        "lr": lr,
        "initial_lr": lr,
        "weight_decay": weight_decay,
    }


def set_rates(
    optimizer: torch.optim.Optimizer, epoch: int, *, schedule: ScheduleSpec, training: TrainingSpec
) -> None:
    """Set every group's learning rate for ``epoch`` (from 1).

    The rate depends on the epoch and not on the steps taken, so a resumed run needs no scheduler state.
    """
    factor = rate_factor(epoch, schedule=schedule, max_epochs=training.max_epochs)
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * factor


def rate_factor(epoch: int, *, schedule: ScheduleSpec, max_epochs: int) -> float:
    """Return the factor of the learning rates in ``epoch``.

    Example:
        >>> [rate_factor(e, schedule=ScheduleSpec(name="step", step_size=2), max_epochs=9) for e in (1, 2, 3)]
        [1.0, 1.0, 0.1]
    """
    match schedule.name:
        case "constant":
            return 1.0
        case "step":
            return float(schedule.gamma ** ((epoch - 1) // schedule.step_size))
        case "cosine":
            return 0.5 * (1 + math.cos(math.pi * (epoch - 1) / max(1, max_epochs)))
