"""Cross-entropy over a plain linear classifier: the baseline that metric learning has to beat."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from levelfield.errors import UsageError
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, softmax_loss
from levelfield.losses._reduction import Reduction
from levelfield.space import Float


def cross_entropy(
    embeddings: Tensor,
    labels: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """-log softmax(W x + b) at each sample's class; nothing is normalised.

    Args:
        embeddings: B x D.
        labels: B, in 0..C-1.
        weights: C x D.
        bias: C, or None.
        label_smoothing: The share of the target that is spread evenly over all classes.
        reduction: How the losses of the samples become one number.

    Returns:
        A scalar.

    Example:
        >>> cross_entropy(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.3133)
    """
    logits = nn.functional.linear(embeddings, weights, bias)
    return softmax_loss(logits, labels, reduction=reduction, label_smoothing=label_smoothing)


@register(
    "cross_entropy",
    kind="classification",
    paper="Training Stochastic Model Recognition Algorithms as Networks can Lead to Maximum Mutual "
    "Information Estimation of Parameters",
    year=1989,
    own_lr=True,
    loss_lr=1e-3,
    space={"label_smoothing": Float(0.0, 0.5)},
)
class CrossEntropy(ClassificationLoss):
    """Cross-entropy over a plain linear classifier, the baseline.

    Weights start with the spread that ``torch.nn.Linear`` gives them, the bias at zero.

    Example:
        >>> loss = CrossEntropy(num_classes=3, embedding_size=8)
        >>> loss(torch.ones(4, 8), torch.tensor([0, 1, 2, 0])).ndim
        0
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        label_smoothing: float = 0.0,
        bias: bool = True,
        reduction: Reduction = "mean",
        seed: int = 0,
    ) -> None:
        if not 0 <= label_smoothing < 1:
            raise UsageError(f"label_smoothing must be 0 or more and below 1, got {label_smoothing!r}")
        super().__init__(
            partial(cross_entropy, label_smoothing=label_smoothing, reduction=reduction),
            num_classes=num_classes,
            embedding_size=embedding_size,
            seed=seed,
            std=(3 * max(embedding_size, 1)) ** -0.5,
        )
        self.bias = nn.Parameter(torch.zeros(num_classes)) if bias else None

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """See :func:`cross_entropy`."""
        bias = None if self.bias is None else self.bias.to(weights.dtype)
        return self.function(embeddings, labels, weights, bias)
