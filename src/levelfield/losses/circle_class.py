"""Circle loss with class-level labels: each cosine is pushed with a strength of its own."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._distances import unit
from levelfield.losses._reduction import Reduction
from levelfield.space import Float


def circle_class(
    embeddings: Tensor,
    labels: Tensor,
    weights: Tensor,
    *,
    m: float = 0.25,
    gamma: float = 256.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Cross-entropy of gamma * a_p * (s_p - (1 - m)) at the true class and gamma * a_n * (s_n - m) elsewhere.

    s are cosines; a_p = [1 + m - s_p]+ and a_n = [s_n + m]+ weigh them and take no gradient, as the paper
    has it. pytorch-metric-learning only has the pair-wise form.

    Args:
        embeddings: B x D, of any length; normalised here.
        labels: B, in 0..C-1.
        weights: C x D, of any length; normalised here.
        m: The relaxation: cosines are led towards 1 + m and -m, past boundaries at 1 - m and m.
        gamma: Multiplies the logits.
        reduction: How the losses of the samples become one number.

    Returns:
        A scalar.

    Example:
        >>> circle_class(torch.eye(2), torch.tensor([0, 1]), torch.eye(2), m=0.5, gamma=1.0)
        tensor(0.4741)
    """
    cosines = unit(embeddings) @ unit(weights).T
    index = labels[:, None]
    own = cosines.gather(1, index)
    others = torch.relu(cosines.detach() + m) * (cosines - m)
    target = torch.relu(1 + m - own.detach()) * (own - (1 - m))
    return softmax_loss(others.scatter(1, index, target) * gamma, labels, reduction=reduction)


@register(
    "circle_class",
    kind="classification",
    paper="Circle Loss: A Unified Perspective of Pair Similarity Optimization",
    year=2020,
    own_lr=True,
    loss_lr=3e-3,
    space={"m": Float(0.0, 1.0), "gamma": Float(8.0, 512.0, log=True)},
)
class CircleClass(ClassificationLoss):
    """Circle loss over cosines to one weight per class; the defaults are the paper's for faces.

    Example:
        >>> loss = CircleClass(num_classes=3, embedding_size=8)
        >>> loss(torch.ones(4, 8), torch.tensor([0, 1, 2, 0])).ndim
        0
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        m: float = 0.25,
        gamma: float = 256.0,
        reduction: Reduction = "mean",
        seed: int = 0,
    ) -> None:
        check_positive("gamma", gamma)
        function = partial(circle_class, m=m, gamma=gamma, reduction=reduction)
        super().__init__(function, num_classes=num_classes, embedding_size=embedding_size, seed=seed)
