"""Proxy-NCA: neighborhood components analysis with one proxy per class."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.geometry import l2_normalize
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction, reduce


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
    """Pull a sample closer to the proxy of its class than to the proxies of other classes.

    -log exp(-s d(x, w_y)) / sum over z != y of exp(-s d(x, w_z)), d the squared distance of unit vectors.

    The paper leaves the sample's own proxy out of the denominator, so the loss may be negative.
    ``include_positive`` adds it. pytorch-metric-learning computes that form, so the "Reality Check" reports
    it.

    Example:
        >>> import torch
        >>> loss = ProxyNCA(num_classes=2, embedding_size=2)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))  # distance 0 to the own proxy
        tensor(-2.)
    """

    softmax_scale: float = 1.0
    """s; multiplies the squared distances."""
    include_positive: bool = False
    """True if the denominator includes the sample's own proxy."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_positive("softmax_scale", self.softmax_scale)
        if self.num_classes < 2 and not self.include_positive:
            raise UsageError(
                f"proxy_nca compares with the proxies of other classes, got num_classes={self.num_classes}; "
                "use at least 2"
            )
        super().__post_init__()

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        # d = 2 - 2 cos, and the 2 is common to numerator and denominator.
        logits = l2_normalize(embeddings) @ l2_normalize(weights).T * (2 * self.softmax_scale)
        if self.include_positive:
            return softmax_loss(logits, labels, reduction=self.reduction)
        index = labels[:, None]
        others = torch.logsumexp(logits.scatter(1, index, -torch.inf), dim=1)
        losses = others - logits.gather(1, index).squeeze(1)
        return reduce(losses, torch.ones_like(losses), self.reduction)
