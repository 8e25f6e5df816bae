"""Cross-entropy over a plain linear classifier: the baseline that metric learning has to beat."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from levelfield.errors import UsageError
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, softmax_loss
from levelfield.losses._reduction import Reduction
from levelfield.space import Float


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
    """Cross-entropy over a plain linear classifier, the baseline.

    -log softmax(W x + b) at each sample's class; nothing is normalised.

    Weights start with the spread that ``torch.nn.Linear`` gives them, the bias at zero.

    Example:
        >>> loss = CrossEntropy(num_classes=2, embedding_size=2, bias=False)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.3133)
    """

    label_smoothing: float = 0.0
    """The share of the target that is spread evenly over all classes."""
    takes_more_classes: ClassVar[bool] = False
    """A class has a bias, too."""

    bias: bool = True
    """Whether each class has a bias besides its weights."""
    reduction: Reduction = "mean"
    """How the losses of the samples become one number."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise UsageError(f"label_smoothing must be 0 or more and below 1, got {self.label_smoothing!r}")
        super().__post_init__()
        self.biases = nn.Parameter(torch.zeros(self.num_classes)) if self.bias else None

    def start_std(self) -> float:
        """The spread that ``torch.nn.Linear`` gives its weights."""
        return 1 / math.sqrt(3 * self.embedding_size)

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The formula above."""
        biases = None if self.biases is None else self.biases.to(weights.dtype)
        logits = nn.functional.linear(embeddings, weights, biases)
        return softmax_loss(logits, labels, reduction=self.reduction, label_smoothing=self.label_smoothing)
