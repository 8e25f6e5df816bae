"""ProxyNCA++: the probability that a sample is assigned to its own proxy, sharpened by a temperature."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive
from levelfield.losses._reduction import Reduction
from levelfield.losses.proxy_nca import proxy_nca
from levelfield.space import Float


def proxy_nca_pp(
    embeddings: Tensor,
    labels: Tensor,
    weights: Tensor,
    *,
    temperature: float = 1 / 9,
    reduction: Reduction = "mean",
) -> Tensor:
    """-log softmax(-d(x, w) / T) at each sample's class, d the squared distance of unit vectors.

    The same as Proxy-NCA with the sample's own proxy in the denominator and ``softmax_scale`` = 1 / T. What
    else the paper adds (a fast proxy learning rate, max pooling, layer norm, balanced batches) belongs to
    other parts of a method.

    Args:
        embeddings: B x D, of any length; normalised here.
        labels: B, in 0..C-1.
        weights: C x D proxies, of any length; normalised here.
        temperature: T, divides the squared distances.
        reduction: How the losses of the samples become one number.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> proxy_nca_pp(torch.eye(2), torch.tensor([0, 1]), torch.eye(2), temperature=1.0)
        tensor(0.1269)
    """
    return proxy_nca(
        embeddings, labels, weights, softmax_scale=1 / temperature, include_positive=True, reduction=reduction
    )


@register(
    "proxy_nca_pp",
    kind="classification",
    paper="ProxyNCA++: Revisiting and Revitalizing Proxy Neighborhood Component Analysis",
    year=2020,
    own_lr=True,
    loss_lr=2.5e-3,
    space={"temperature": Float(0.01, 1.0, log=True)},
)
class ProxyNCAPlusPlus(ClassificationLoss):
    """The probability that a sample is assigned to its own proxy, sharpened by a temperature.

    Proxies start as N(0, 1/8²), as the authors' do.

    Example:
        >>> import torch
        >>> loss = ProxyNCAPlusPlus(num_classes=3, embedding_size=8)
        >>> loss(torch.ones(4, 8), torch.tensor([0, 1, 2, 0])).ndim
        0
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        temperature: float = 1 / 9,
        reduction: Reduction = "mean",
        seed: int = 0,
    ) -> None:
        check_positive("temperature", temperature)
        function = partial(proxy_nca_pp, temperature=temperature, reduction=reduction)
        super().__init__(
            function, num_classes=num_classes, embedding_size=embedding_size, seed=seed, std=1 / 8
        )
