"""Proxy-proxy loss: samples are pulled to their proxy, and the proxies push each other apart."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from levelfield.errors import UsageError
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive
from levelfield.losses._distances import unit
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses.proxy_anchor import attraction, own_samples
from levelfield.space import Choice, Float

MOST_AT_ONCE = 2**24  # similarities of proxies held at a time: 64 MB in float32


def proxy_proxy(
    embeddings: Tensor,
    labels: Tensor,
    weights: Tensor,
    *,
    margin: float = 0.1,
    alpha: float = 32.0,
    variant: Literal[1, 2] = 2,
) -> Tensor:
    """Proxy Anchor's attraction, plus a repulsion between the proxies themselves.

    The repulsion is the mean over all proxies w of log(1 + sum over other proxies v of
    exp(alpha (s(w, v) + margin))). Variant 1 takes s(w, v) = w.v; variant 2, with which the "Deep Dive"
    thesis made its experiments, s(w, v) = sum over the samples x of the batch of (w.x)(x.v), so that batch
    and proxies shape each other. All vectors are of unit length. The means are the reduction.

    Args:
        embeddings: B x D, of any length; normalised here.
        labels: B, in 0..C-1.
        weights: C x D proxies, of any length; normalised here.
        margin: Added to the similarities of proxies, subtracted from those of samples with their proxy.
        alpha: Multiplies the similarities.
        variant: 1 or 2.

    Returns:
        A scalar.

    Example:
        >>> proxy_proxy(torch.eye(2), torch.tensor([0, 1]), torch.eye(2), margin=0.0, alpha=1.0)
        tensor(1.0064)
    """
    samples, proxies = unit(embeddings), unit(weights)
    cosines = proxies @ samples.T
    pull = attraction(cosines, own_samples(labels, cosines), margin=margin, alpha=alpha)
    return pull + repulsion(proxies if variant == 1 else cosines, margin=margin, alpha=alpha)


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

    The thesis prints no hyperparameters for it; the defaults and the starting proxies are Proxy Anchor's,
    from which it is made.

    Example:
        >>> loss = ProxyProxy(num_classes=3, embedding_size=8, variant=1)
        >>> loss(torch.ones(4, 8), torch.tensor([0, 1, 2, 0])).ndim
        0
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        margin: float = 0.1,
        alpha: float = 32.0,
        variant: Literal[1, 2] = 2,
        seed: int = 0,
    ) -> None:
        std = (2 / max(num_classes, 1)) ** 0.5
        check_positive("alpha", alpha)
        if variant not in (1, 2):
            raise UsageError(f"variant must be 1 or 2, got {variant!r}")
        function = partial(proxy_proxy, margin=margin, alpha=alpha, variant=variant)
        super().__init__(function, num_classes=num_classes, embedding_size=embedding_size, seed=seed, std=std)
