"""Group loss: labels of anchors propagate to the other samples of the batch."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from levelfield.core.geometry import dot_products, l2_normalize
from levelfield.core.options import Size
from levelfield.core.space import Float, Int
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction, reduce

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
    compares_samples=True,
    space={"temperature": Float(1.0, 100.0, log=True), "iterations": Int(1, 5)},
)
class Group(ClassificationLoss):
    """Propagate the labels of a few anchors over the batch by similarity, and classify the samples.

    Every sample starts with the class probabilities ``softmax((W x + b) / temperature)``; anchors start with
    probability one of their label. Replicator dynamics multiply them by the support of similar samples,
    ``p <- p (S p)``, and normalize them; S is the positive part of the correlation of the embeddings'
    components. The loss is ``-log p`` at the sample's class, plus the cross-entropy of ``W x + b``.

    As in the authors' code, the first samples of each class in the batch are its anchors, so their order
    matters; S has ones on its diagonal, and 1e-12 is added to p. Their code runs one iteration, and uses
    other values for each dataset: temperature 24 on CUB, 79 on Cars, 54 on SOP; 2, 3 and 2 anchors in batches
    of 6 x 9, 5 x 7 and 10 x 6. If a class has no more samples in the batch than ``anchors``, nothing
    propagates and the loss is ``cross_entropy``; experiments with such batches are refused.

    Example:
        >>> loss = Group(num_classes=2, embedding_size=2, anchors=1, temperature=1.0)
        >>> x, labels = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]]), torch.tensor([0, 1, 0])
        >>> loss.compute(x, labels, torch.zeros(2, 2))  # log 2, and one third of log(4 / 3)
        tensor(0.7890, grad_fn=...)
    """

    accepts_extra_classes: ClassVar[bool] = False
    """A class also has a bias."""

    anchors: Size = 2
    """Number of samples per class that start with their label."""
    temperature: float = 24.0
    """Divides the logits of the initial probabilities, not those of the cross-entropy."""
    iterations: Size = 1
    """Iterations of the replicator dynamics."""
    group_weight: float = 1.0
    """Weight of the loss after the dynamics."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)
        super().__post_init__()
        self.biases = nn.Parameter(torch.zeros(self.num_classes))

    def init_std(self) -> float:
        """Return the standard deviation of the initial weights of ``torch.nn.Linear``."""
        return 1 / math.sqrt(3 * self.embedding_size)

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        logits = nn.functional.linear(embeddings, weights, self.biases.to(weights.dtype))
        certain = nn.functional.one_hot(labels, self.num_classes).to(logits.dtype)
        earlier = (labels[:, None] == labels).tril(-1).sum(1, keepdim=True)
        chances = torch.where(earlier < self.anchors, certain, (logits / self.temperature).softmax(1))
        support = dot_products(l2_normalize(embeddings - embeddings.mean(1, keepdim=True))).relu()
        for _ in range(self.iterations):
            grown = chances * (support @ chances)
            total = grown.sum(1, keepdim=True)
            alone = total == 0  # no support, not even its own: keep the probabilities
            chances = torch.where(alone, chances, grown / torch.where(alone, 1.0, total))
        missed = -(chances.gather(1, labels[:, None]).squeeze(1) + FLOOR).log()
        group_loss = reduce(missed, torch.ones_like(missed), self.reduction)
        return softmax_loss(logits, labels, reduction=self.reduction) + self.group_weight * group_loss
