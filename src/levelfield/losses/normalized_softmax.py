"""Normalised softmax: cross-entropy over cosine similarities to one weight per class."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._distances import unit
from levelfield.losses._reduction import Reduction
from levelfield.space import Float


def normalized_softmax(
    embeddings: Tensor,
    labels: Tensor,
    weights: Tensor,
    *,
    temperature: float = 0.05,
    reduction: Reduction = "mean",
) -> Tensor:
    """-log softmax(cos(x, w) / temperature) at each sample's class.

    "Revisiting Training Strategies" prints eq. 19 without the sample's own class in the denominator; this
    follows the original publication, as pytorch-metric-learning does, which it equals.

    Args:
        embeddings: B x D, of any length; normalised here.
        labels: B, in 0..C-1.
        weights: C x D, of any length; normalised here.
        temperature: Divides the cosines.
        reduction: How the losses of the samples become one number.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> normalized_softmax(torch.eye(2), torch.tensor([0, 1]), torch.eye(2), temperature=1.0)
        tensor(0.3133)
    """
    return softmax_loss(unit(embeddings) @ unit(weights).T / temperature, labels, reduction=reduction)


@register(
    "normalized_softmax",
    kind="classification",
    paper="Classification is a Strong Baseline for Deep Metric Learning",
    year=2019,
    own_lr=True,
    loss_lr=3e-3,
    reported_by=("reality-check", "revisiting", "landmarks"),
    space={"temperature": Float(0.01, 1.0, log=True)},
)
class NormalizedSoftmax(ClassificationLoss):
    """Cross-entropy over cosine similarities to one weight per class.

    The default temperature is the paper's; the optima of the "Reality Check" lie at 0.063 to 0.109.

    Example:
        >>> import torch
        >>> loss = NormalizedSoftmax(num_classes=3, embedding_size=8)
        >>> loss(torch.ones(4, 8), torch.tensor([0, 1, 2, 0])).ndim
        0
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        temperature: float = 0.05,
        reduction: Reduction = "mean",
        seed: int = 0,
    ) -> None:
        check_positive("temperature", temperature)
        function = partial(normalized_softmax, temperature=temperature, reduction=reduction)
        super().__init__(function, num_classes=num_classes, embedding_size=embedding_size, seed=seed)
