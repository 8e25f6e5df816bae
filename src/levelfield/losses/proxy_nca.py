"""Proxy-NCA: a sample is closer to its class's proxy than to the proxies of other classes."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._distances import unit
from levelfield.losses._reduction import Reduction, reduce
from levelfield.space import Float


def proxy_nca(
    embeddings: Tensor,
    labels: Tensor,
    weights: Tensor,
    *,
    softmax_scale: float = 1.0,
    include_positive: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """-log exp(-s d(x, w_y)) / sum over z != y of exp(-s d(x, w_z)), d the squared distance of unit vectors.

    The paper leaves the sample's own proxy out of the denominator, so the loss may fall below zero.
    ``include_positive`` puts it in: that is what pytorch-metric-learning computes, and what the "Reality
    Check" therefore measured.

    Args:
        embeddings: B x D, of any length; normalised here.
        labels: B, in 0..C-1.
        weights: C x D proxies, of any length; normalised here.
        softmax_scale: s, multiplies the squared distances.
        include_positive: Whether the denominator counts the sample's own proxy.
        reduction: How the losses of the samples become one number.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> proxy_nca(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))  # 0 to the own proxy, 2 to the other
        tensor(-2.)
    """
    # d = 2 - 2 cos, and the 2 is common to numerator and denominator.
    logits = unit(embeddings) @ unit(weights).T * (2 * softmax_scale)
    if include_positive:
        return softmax_loss(logits, labels, reduction=reduction)
    index = labels[:, None]
    others = torch.logsumexp(logits.scatter(1, index, -torch.inf), dim=1)
    losses = others - logits.gather(1, index).squeeze(1)
    return reduce(losses, torch.ones_like(losses), reduction)


@register(
    "proxy_nca",
    kind="classification",
    paper="No Fuss Distance Metric Learning using Proxies",
    year=2017,
    own_lr=True,
    loss_lr=2.5e-3,
    reported_by=("reality-check", "revisiting", "deep-dive", "landmarks"),
    space={"softmax_scale": Float(1.0, 100.0, log=True)},
)
class ProxyNCA(ClassificationLoss):
    """A sample is closer to its class's proxy than to the proxies of the other classes.

    Example:
        >>> import torch
        >>> loss = ProxyNCA(num_classes=3, embedding_size=8, softmax_scale=10.0)
        >>> loss(torch.ones(4, 8), torch.tensor([0, 1, 2, 0])).ndim
        0
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        softmax_scale: float = 1.0,
        include_positive: bool = False,
        reduction: Reduction = "mean",
        seed: int = 0,
    ) -> None:
        check_positive("softmax_scale", softmax_scale)
        if num_classes < 2 and not include_positive:
            raise UsageError(
                f"proxy_nca compares with the proxies of other classes, got num_classes={num_classes}; "
                "it needs at least 2"
            )
        function = partial(
            proxy_nca, softmax_scale=softmax_scale, include_positive=include_positive, reduction=reduction
        )
        super().__init__(function, num_classes=num_classes, embedding_size=embedding_size, seed=seed)
