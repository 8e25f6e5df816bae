"""CosFace: softmax over cosines with a margin subtracted from the cosine of the true class."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._distances import unit
from levelfield.losses._reduction import Reduction
from levelfield.space import Float


def cosface(
    embeddings: Tensor,
    labels: Tensor,
    weights: Tensor,
    *,
    margin: float = 0.35,
    scale: float = 64.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Cross-entropy of scale * (cos(x, w) - margin at the sample's class). Equals pytorch-metric-learning's.

    Args:
        embeddings: B x D, of any length; normalised here.
        labels: B, in 0..C-1.
        weights: C x D, of any length; normalised here.
        margin: Subtracted from the cosine to the sample's class.
        scale: Multiplies the cosines.
        reduction: How the losses of the samples become one number.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> cosface(torch.eye(2), torch.tensor([0, 1]), torch.eye(2), margin=0.5, scale=1.0)
        tensor(0.4741)
    """
    cosines = unit(embeddings) @ unit(weights).T
    penalty = cosines.new_full((len(labels), 1), -margin)
    return softmax_loss(cosines.scatter_add(1, labels[:, None], penalty) * scale, labels, reduction=reduction)


@register(
    "cosface",
    kind="classification",
    paper="CosFace: Large Margin Cosine Loss for Deep Face Recognition",
    year=2018,
    own_lr=True,
    loss_lr=3e-3,
    reported_by=("reality-check", "landmarks"),
    space={"margin": Float(0.0, 1.0), "scale": Float(1.0, 300.0, log=True)},
)
class CosFace(ClassificationLoss):
    """Softmax over cosines with a margin subtracted from the cosine of the true class.

    Example:
        >>> import torch
        >>> loss = CosFace(num_classes=3, embedding_size=8)
        >>> loss(torch.ones(4, 8), torch.tensor([0, 1, 2, 0])).ndim
        0
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        margin: float = 0.35,
        scale: float = 64.0,
        reduction: Reduction = "mean",
        seed: int = 0,
    ) -> None:
        check_positive("scale", scale)
        function = partial(cosface, margin=margin, scale=scale, reduction=reduction)
        super().__init__(function, num_classes=num_classes, embedding_size=embedding_size, seed=seed)
