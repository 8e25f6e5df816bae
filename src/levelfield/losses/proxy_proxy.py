"""Proxy-proxy loss: samples are pulled to their proxy, and the proxies push each other apart."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from levelfield.errors import UsageError
from levelfield.geometry import unit
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses.proxy_anchor import attraction, own_samples, proxy_std
from levelfield.space import Choice, Float

MOST_AT_ONCE = 2**24  # similarities of proxies held at a time: 64 MB in float32


@register(
    "proxy_proxy",
    kind="classification",
    paper="Metric Learning: A Deep Dive",
    year=2020,
    own_lr=True,
    loss_lr=1e-2,
    reported_by=("deep-dive",),
    space={"margin": Float(0.0, 1.0), "alpha": Float(1.0, 100.0, log=True), "variant": Choice(1, 2)},
)
class ProxyProxy(ClassificationLoss):
    """Samples are pulled to their proxy, and the proxies push each other apart.

    Proxy Anchor's attraction, plus a repulsion between the proxies themselves.

    The repulsion is the mean over all proxies w of log(1 + sum over other proxies v of
    exp(alpha (s(w, v) + margin))). Variant 1 takes s(w, v) = w.v; variant 2, with which the "Deep Dive"
    thesis made its experiments, s(w, v) = sum over the samples x of the batch of (w.x)(x.v), so that batch
    and proxies shape each other. All vectors are of unit length. The means are the reduction.

    The thesis prints no hyperparameters for it; the defaults and the starting proxies are Proxy Anchor's,
    from which it is made.

    Example:
        >>> loss = ProxyProxy(num_classes=2, embedding_size=2, margin=0.0, alpha=1.0)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(1.0064)
    """

    margin: float = 0.1
    """Added to the similarities of proxies, subtracted from those of samples with their proxy."""
    alpha: float = 32.0
    """Multiplies the similarities."""
    variant: Literal[1, 2] = 2
    """1 or 2."""

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)
        if self.variant not in (1, 2):
            raise UsageError(f"variant must be 1 or 2, got {self.variant!r}")
        super().__post_init__()

    def start_std(self) -> float:
        """That of Proxy Anchor's proxies."""
        return proxy_std(self.num_classes)

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The formula above."""
        samples, proxies = unit(embeddings), unit(weights)
        cosines = proxies @ samples.T
        pull = attraction(cosines, own_samples(labels, cosines), margin=self.margin, alpha=self.alpha)
        return pull + repulsion(
            proxies if self.variant == 1 else cosines, margin=self.margin, alpha=self.alpha
        )


def repulsion(rows: Tensor, *, margin: float, alpha: float) -> Tensor:
    """The mean over ``rows`` (C x K) of log(1 + sum of exp(alpha (dot product + margin)) over other rows).

    The C x C products of many classes are made in blocks, and made again for the gradient.

    Example:
        >>> repulsion(torch.eye(2), margin=0.0, alpha=1.0)
        tensor(0.6931)
    """

    def block(first: int, last: int) -> Tensor:
        others = rows.new_ones(last - first, len(rows))
        others.diagonal(first).zero_()
        return log_sum_exp(alpha * (rows[first:last] @ rows.T + margin), others, plus_one=True).sum()

    count = len(rows)
    if count * count <= MOST_AT_ONCE:
        return block(0, count) / count
    size = max(MOST_AT_ONCE // count, 1)
    blocks = [(first, min(first + size, count)) for first in range(0, count, size)]
    sums = [checkpoint(block, *ends, use_reentrant=False, preserve_rng_state=False) for ends in blocks]
    return torch.stack(sums).sum() / count
