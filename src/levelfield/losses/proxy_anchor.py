"""Proxy Anchor: proxies pull the samples of their class and push all others."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from levelfield.core.geometry import l2_normalize
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive
from levelfield.losses._logsumexp import log_sum_exp


@register(
    "proxy_anchor",
    kind="classification",
    paper="Proxy Anchor Loss for Deep Metric Learning",
    year=2020,
    own_lr=True,
    loss_lr=1e-2,
    reported_by=("deep-dive",),
    space={"margin": Float(0.0, 1.0), "alpha": Float(1.0, 100.0, log=True)},
)
class ProxyAnchor(ClassificationLoss):
    """Proxies pull the samples of their class and push all others, the hardest most.

    The mean over proxies with a positive in the batch of log(1 + sum exp(-alpha (s - margin))) over their
    samples, plus the mean over all proxies of log(1 + sum exp(alpha (s + margin))) over all other samples;
    s are cosines. There is no other reduction. Equals pytorch-metric-learning's.

    Initial proxies are N(0, 2 / num_classes), as in the authors' code. They learn at a hundred times the
    authors' network rate of 1e-4.

    Example:
        >>> loss = ProxyAnchor(num_classes=2, embedding_size=2, margin=0.0, alpha=1.0)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(1.0064)
    """

    margin: float = 0.1
    """Cosines should be above the margin for the own class, below minus the margin for others."""
    alpha: float = 32.0
    """Multiplies the cosines."""

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)
        super().__post_init__()

    def init_std(self) -> float:
        """Return the standard deviation of the authors' initial proxies."""
        return proxy_init_std(self.num_classes)

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        samples, proxies = l2_normalize(embeddings), l2_normalize(weights)
        cosines = proxies @ samples.T
        own = class_mask(labels, cosines)
        push = log_sum_exp(self.alpha * (cosines + self.margin), 1 - own, plus_one=True).mean()
        return proxy_attraction(cosines, own, margin=self.margin, alpha=self.alpha) + push


def proxy_init_std(num_classes: int) -> float:
    """Return the standard deviation of the authors' initial proxies, N(0, 2 / num_classes)."""
    return math.sqrt(2 / num_classes)


def proxy_attraction(cosines: Tensor, own: Tensor, *, margin: float, alpha: float) -> Tensor:
    """Return the mean over proxies with samples in the batch of log(1 + sum exp(-alpha (s - margin))).

    Args:
        cosines: C x B, of each proxy with each sample.
        own: C x B, one if the sample is of the proxy's class, else zero.
        margin: See :class:`ProxyAnchor`.
        alpha: See :class:`ProxyAnchor`.

    Example:
        >>> proxy_attraction(torch.zeros(2, 1), torch.tensor([[1.0], [0.0]]), margin=0.0, alpha=1.0)
        tensor(0.6931)
    """
    pull = log_sum_exp(alpha * (margin - cosines), own, plus_one=True)
    return pull.sum() / own.amax(dim=1).sum().clamp(min=1)


def class_mask(labels: Tensor, cosines: Tensor) -> Tensor:
    """Return a mask (C x B, like ``cosines``) that is one where the sample's label is the class."""
    classes = torch.arange(len(cosines), device=labels.device)
    return (classes[:, None] == labels).to(cosines.dtype)
