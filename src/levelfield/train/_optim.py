"""Optimiser and schedule: trunk, head and loss parameters learn at rates of their own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from levelfield import losses
from levelfield.config import OptimizerSpec, ScheduleSpec, TrainingSpec
from levelfield.models import Embedder


class Learner(NamedTuple):
    """What else a step trains: the parameters of a regulariser, or of branches that are thrown away.

    Attributes:
        name: Of the group.
        parameters: Those that learn.
        lr: Their rate; None means that of the network, with its weight decay.
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
    others: Iterable[Learner] = (),
) -> torch.optim.Optimizer:
    """An optimiser with up to three parameter groups: trunk, head, loss; and one for each other learner.

    The loss's group is there only if the loss owns parameters; its weight decay is separate, because
    decaying proxies or a learned margin changes the method, not the network.
    """
    own = embedder.parameter_groups()
    head_lr = spec.lr if spec.head_lr is None else spec.head_lr
    groups = [
        _group("trunk", own["trunk"] if train_trunk else [], spec.lr, spec.weight_decay),
        _group("head", own["head"], head_lr, spec.weight_decay),
    ]
    for name, parameters, lr in [*loss_learners(loss, loss_lr), *others]:
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


def loss_learners(loss: nn.Module, loss_lr: float) -> list[Learner]:
    """The loss's parameters that learn, with their rates; a loss from elsewhere has one rate for all."""
    rates = loss.rates(loss_lr) if isinstance(loss, losses.Loss) else [(list(loss.parameters()), loss_lr)]
    return [Learner("loss", [p for p in parameters if p.requires_grad], lr) for parameters, lr in rates]


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
    """Set every group's learning rate for ``epoch`` (1 is the first).

    The rate is a function of the epoch and not of the steps taken, so that a resumed run needs no
    scheduler state.
    """
    factor = rate_factor(epoch, schedule=schedule, max_epochs=training.max_epochs)
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * factor


def rate_factor(epoch: int, *, schedule: ScheduleSpec, max_epochs: int) -> float:
    """What multiplies the learning rates in ``epoch``.

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
