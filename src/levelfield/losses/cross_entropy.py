"""Cross-entropy of a plain linear classifier: the baseline for metric learning."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from levelfield.core.errors import UsageError
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, softmax_loss
from levelfield.losses._reduction import Reduction


@register(
    "cross_entropy",
    kind="classification",
    embedding="raw",
    paper="Training Stochastic Model Recognition Algorithms as Networks can Lead to Maximum Mutual "
    "Information Estimation of Parameters",
    year=1989,
    own_lr=True,
    loss_lr=1e-3,
    space={"label_smoothing": Float(0.0, 0.5)},
)
class CrossEntropy(ClassificationLoss):
    """Cross-entropy of a plain linear classifier, the baseline.

    -log softmax(W x + b) at each sample's class; nothing is normalized.

    Initial weights have the standard deviation of ``torch.nn.Linear``; initial biases are zero.

    Example:
        >>> loss = CrossEntropy(num_classes=2, embedding_size=2, bias=False)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.3133)
    """

    label_smoothing: float = 0.0
    """Share of the target that is distributed evenly over all classes."""
    accepts_extra_classes: ClassVar[bool] = False
    """A class also has a bias."""

    bias: bool = True
    """True if each class has a bias in addition to its weights."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise UsageError(
                f"label_smoothing must be 0 or more and below 1, got {self.label_smoothing!r}; correct it"
            )
        super().__post_init__()
        self.biases = nn.Parameter(torch.zeros(self.num_classes)) if self.bias else None

    def init_std(self) -> float:
        """Return the standard deviation of the initial weights of ``torch.nn.Linear``."""
        return 1 / math.sqrt(3 * self.embedding_size)

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        biases = None if self.biases is None else self.biases.to(weights.dtype)
        logits = nn.functional.linear(embeddings, weights, biases)
        return softmax_loss(logits, labels, reduction=self.reduction, label_smoothing=self.label_smoothing)
