"""Proxy-proxy loss: proxies pull their samples and push each other."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from levelfield.core.errors import UsageError
from levelfield.core.geometry import l2_normalize
from levelfield.core.space import Choice, Float
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses.proxy_anchor import class_mask, proxy_attraction, proxy_init_std

MOST_AT_ONCE = 2**24  # similarities of proxies in memory at a time: 64 MB in float32


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
    """Proxies pull their samples and push each other.

    Proxy Anchor's proxy_attraction, plus a proxy_repulsion between the proxies themselves.

    The proxy_repulsion is the mean over all proxies w of log(1 + sum over other proxies v of
    exp(alpha (s(w, v) + margin))). Variant 1 takes s(w, v) = w.v; variant 2, with which the "Deep Dive"
    thesis made its experiments, s(w, v) = sum over the samples x of the batch of (w.x)(x.v), so that batch
    and proxies affect each other. All vectors have unit length. There is no other reduction.

    The thesis prints no hyperparameters for it. The defaults and the initial proxies are those of Proxy
    Anchor, on which it is based.

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
    """Similarity between proxies: 1 or 2."""

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)
        if self.variant not in (1, 2):
            raise UsageError(f"variant must be 1 or 2, got {self.variant!r}; choose one")
        super().__post_init__()

    def init_std(self) -> float:
        """Return the standard deviation of Proxy Anchor's initial proxies."""
        return proxy_init_std(self.num_classes)

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        samples, proxies = l2_normalize(embeddings), l2_normalize(weights)
        cosines = proxies @ samples.T
        pull = proxy_attraction(cosines, class_mask(labels, cosines), margin=self.margin, alpha=self.alpha)
        return pull + proxy_repulsion(
            proxies if self.variant == 1 else cosines, margin=self.margin, alpha=self.alpha
        )


def proxy_repulsion(rows: Tensor, *, margin: float, alpha: float) -> Tensor:
    """Return the mean over rows w (C x K) of log(1 + sum of exp(alpha (w.v + margin)) over other rows v).

    With many classes, the C x C products are computed in blocks, and again for the gradient.

    Example:
        >>> proxy_repulsion(torch.eye(2), margin=0.0, alpha=1.0)
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
