"""Losses: one file each, holding a pure function, a thin module, a card and a search space."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from levelfield.losses._classification import ClassificationLoss
from levelfield.losses._layers import mlp
from levelfield.losses._module import Loss
from levelfield.registry import Card, Registry

__all__ = [
    "ClassificationLoss",
    "Loss",
    "LossCard",
    "create",
    "has_proxies",
    "mlp",
    "register",
    "registry",
    "takes_more_classes",
]


@dataclass(frozen=True, kw_only=True)
class LossCard(Card):
    """A loss's card.

    Attributes:
        kind: "embedding" losses compare samples of a batch with each other; "classification" losses own a
            weight per class, take ``num_classes`` and ``embedding_size``, and want labels 0..num_classes-1.
        tuples: Which tuples of a miner the loss can use; None if it refuses a miner.
        embedding: What the loss is defined on: "unit" vectors, or "raw" ones, whose length counts. Training
            hands it the head's output accordingly; evaluation is by cosine either way.
        own_lr: Whether the loss owns parameters that learn at a rate of their own (``loss_lr``).
        loss_lr: The default learning rate of those parameters.
        reported_by: Which of the papers report it ("reality-check", "revisiting", "deep-dive", "landmarks").
    """

    kind: Literal["embedding", "classification"] = "embedding"
    tuples: Literal["pairs", "triplets"] | None = None
    embedding: Literal["unit", "raw"] = "unit"
    own_lr: bool = False
    loss_lr: float = 1e-3
    reported_by: tuple[str, ...] = ()


registry: Registry[LossCard] = Registry("loss", LossCard, package=__name__)
register = registry.register


def create(name: str, /, **options: Any) -> nn.Module:
    """The loss called ``name``, e.g. ``create("triplet", margin=0.1)``.

    Calling it with embeddings (B x D), labels (B) and, optionally, a miner's tuples gives a scalar.
    """
    loss: nn.Module = registry.create(name, **options)
    return loss


def has_proxies(name: str) -> bool:
    """Whether the loss called ``name`` owns ``weights`` (C x D) of one vector for each class.

    Example:
        >>> has_proxies("arcface"), has_proxies("soft_triple"), has_proxies("triplet")
        (True, False, False)
    """
    target = registry[name].target
    if not inspect.isclass(target) or not issubclass(target, ClassificationLoss):
        return False
    return target.vectors_per_class is ClassificationLoss.vectors_per_class


def takes_more_classes(name: str) -> bool:
    """Whether the loss called ``name`` can be computed on unit weights of more classes than it owns.

    Example:
        >>> takes_more_classes("arcface"), takes_more_classes("cross_entropy"), takes_more_classes("triplet")
        (True, False, False)
    """
    entry = registry[name]
    return has_proxies(name) and entry.target.takes_more_classes and entry.card.embedding == "unit"  # type: ignore[attr-defined]
