"""Proxy-NCA: a sample is closer to its class's proxy than to the proxies of other classes."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.geometry import unit
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.space import Float


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

    -log exp(-s d(x, w_y)) / sum over z != y of exp(-s d(x, w_z)), d the squared distance of unit vectors.

    The paper leaves the sample's own proxy out of the denominator, so the loss may fall below zero.
    ``include_positive`` puts it in: that is what pytorch-metric-learning computes, and what the "Reality
    Check" therefore measured.

    Example:
        >>> import torch
        >>> loss = ProxyNCA(num_classes=2, embedding_size=2)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))  # at 0 from the own proxy
        tensor(-2.)
    """

    softmax_scale: float = 1.0
    """s, multiplies the squared distances."""
    include_positive: bool = False
    """Whether the denominator counts the sample's own proxy."""
    reduction: Reduction = "mean"
    """How the losses of the samples become one number."""

    def __post_init__(self) -> None:
        check_positive("softmax_scale", self.softmax_scale)
        if self.num_classes < 2 and not self.include_positive:
            raise UsageError(
                f"proxy_nca compares with the proxies of other classes, got num_classes={self.num_classes}; "
                "it needs at least 2"
            )
        super().__post_init__()

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The formula above."""
        # d = 2 - 2 cos, and the 2 is common to numerator and denominator.
        logits = unit(embeddings) @ unit(weights).T * (2 * self.softmax_scale)
        if self.include_positive:
            return softmax_loss(logits, labels, reduction=self.reduction)
        index = labels[:, None]
        others = torch.logsumexp(logits.scatter(1, index, -torch.inf), dim=1)
        losses = others - logits.gather(1, index).squeeze(1)
        return reduce(losses, torch.ones_like(losses), self.reduction)
