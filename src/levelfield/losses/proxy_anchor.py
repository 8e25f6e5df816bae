"""Proxy Anchor: each class's proxy pulls its samples and pushes all others, the hardest most."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from levelfield.geometry import unit
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.space import Float


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
    """Each class's proxy pulls its samples and pushes all others, the hardest most.

    Attraction to and repulsion from every proxy, smoothed over the samples of the batch.

    The mean over proxies with a positive in the batch of log(1 + sum exp(-alpha (s - margin))) over their
    samples, plus the mean over all proxies of log(1 + sum exp(alpha (s + margin))) over all other samples;
    s are cosines. The two means are the reduction. Equals pytorch-metric-learning's.

    Proxies start as N(0, 2 / num_classes), as the authors' do, and learn at a hundred times their network's
    rate of 1e-4.

    Example:
        >>> loss = ProxyAnchor(num_classes=2, embedding_size=2, margin=0.0, alpha=1.0)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(1.0064)
    """

    margin: float = 0.1
    """Cosines are led above the margin, or below minus the margin."""
    alpha: float = 32.0
    """Multiplies the cosines."""

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)
        super().__post_init__()

    def start_std(self) -> float:
        """That of the authors' proxies."""
        return proxy_std(self.num_classes)

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The formula above."""
        samples, proxies = unit(embeddings), unit(weights)
        cosines = proxies @ samples.T
        own = own_samples(labels, cosines)
        push = log_sum_exp(self.alpha * (cosines + self.margin), 1 - own, plus_one=True).mean()
        return attraction(cosines, own, margin=self.margin, alpha=self.alpha) + push


def proxy_std(num_classes: int) -> float:
    """The spread of the authors' starting proxies: N(0, 2 / num_classes)."""
    return math.sqrt(2 / num_classes)


def attraction(cosines: Tensor, own: Tensor, *, margin: float, alpha: float) -> Tensor:
    """The mean over proxies with samples in the batch of log(1 + sum exp(-alpha (s - margin))).

    Args:
        cosines: C x B, of each proxy with each sample.
        own: C x B, one where the sample is of the proxy's class, else zero.
        margin: See :func:`proxy_anchor`.
        alpha: See :func:`proxy_anchor`.

    Example:
        >>> attraction(torch.zeros(2, 1), torch.tensor([[1.0], [0.0]]), margin=0.0, alpha=1.0)
        tensor(0.6931)
    """
    pull = log_sum_exp(alpha * (margin - cosines), own, plus_one=True)
    return pull.sum() / own.amax(dim=1).sum().clamp(min=1)


def own_samples(labels: Tensor, cosines: Tensor) -> Tensor:
    """One where the sample is of the class, else zero: C x B, as ``cosines`` are, from ``labels`` (B)."""
    classes = torch.arange(len(cosines), device=labels.device)
    return (classes[:, None] == labels).to(cosines.dtype)
