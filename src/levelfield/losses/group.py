"""Group loss: what a class's anchors say must spread to its other samples."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from levelfield.geometry import products, unit
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.options import Size
from levelfield.space import Float, Int

FLOOR = 1e-12
"""Added to probabilities before the logarithm, as in the authors' code."""


@register(
    "group",
    kind="classification",
    paper="The Group Loss for Deep Metric Learning",
    year=2020,
    embedding="raw",
    own_lr=True,
    loss_lr=1e-3,
    space={"temperature": Float(1.0, 100.0, log=True), "iterations": Int(1, 5)},
)
class Group(ClassificationLoss):
    """Let the labels of a few anchors spread over the batch by similarity, and ask whether they arrive.

    Every sample starts with the probabilities ``softmax((W x + b) / temperature)`` of the classes, the
    anchors with their own label for certain. Replicator dynamics multiply them by what similar samples say,
    ``p <- p (S p)``, and let them sum to one again; S is the correlation of the embeddings' components where
    that is above zero. The loss is ``-log p`` at the sample's class, plus the cross-entropy of ``W x + b``.

    As in the authors' code the first samples of each class in the batch are its anchors, so their order
    matters; S has ones on its diagonal, and 1e-12 is added to p. Theirs runs one iteration, and has another
    temperature for each dataset: 24 on CUB, 79 on Cars, 54 on SOP.

    Example:
        >>> loss = Group(num_classes=2, embedding_size=2, anchors=1, temperature=1.0)
        >>> x, labels = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]]), torch.tensor([0, 1, 0])
        >>> loss.compute(x, labels, torch.zeros(2, 2))  # log 2, and one third of log(4 / 3)
        tensor(0.7890, grad_fn=...)
    """

    takes_more_classes: ClassVar[bool] = False
    """A class has a bias, too."""

    anchors: Size = 2
    """How many samples of each class start with their label."""
    temperature: float = 24.0
    """Divides the logits before the dynamics, not in the cross-entropy."""
    iterations: Size = 1
    """Of the replicator dynamics."""
    group_weight: float = 1.0
    """Of the part that the dynamics make."""
    reduction: Reduction = "mean"
    """How the losses of the samples become one number."""

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)
        super().__post_init__()
        self.biases = nn.Parameter(torch.zeros(self.num_classes))

    def start_std(self) -> float:
        """The spread that ``torch.nn.Linear`` gives its weights."""
        return 1 / math.sqrt(3 * self.embedding_size)

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The formula above."""
        logits = nn.functional.linear(embeddings, weights, self.biases.to(weights.dtype))
        certain = nn.functional.one_hot(labels, self.num_classes).to(logits.dtype)
        earlier = (labels[:, None] == labels).tril(-1).sum(1, keepdim=True)
        chances = torch.where(earlier < self.anchors, certain, (logits / self.temperature).softmax(1))
        support = products(unit(embeddings - embeddings.mean(1, keepdim=True))).relu()
        for _ in range(self.iterations):
            grown = chances * (support @ chances)
            total = grown.sum(1, keepdim=True)
            alone = total == 0  # without similar samples, itself included, nothing is said
            chances = torch.where(alone, chances, grown / torch.where(alone, 1.0, total))
        missed = -(chances.gather(1, labels[:, None]).squeeze(1) + FLOOR).log()
        spread = reduce(missed, torch.ones_like(missed), self.reduction)
        return softmax_loss(logits, labels, reduction=self.reduction) + self.group_weight * spread
