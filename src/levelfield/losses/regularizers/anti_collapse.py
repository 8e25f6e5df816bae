"""Anti-collapse: a high coding rate of the embeddings, or of the proxies."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.core.geometry import as_float32, l2_normalize
from levelfield.losses._classification import check_positive
from levelfield.losses.regularizers import Regularizer, register

PAPER = "Anti-Collapse Loss for Deep Metric Learning Based on Coding Rate Metric"


@register("anti_collapse", paper=PAPER, year=2024)
class AntiCollapse(Regularizer):
    """Negative coding rate of the embeddings, in nats; lower if they spread over more directions.

    The rate of m unit vectors Z (m x D) is ``1/2 log det(I + D / (m epsilon_squared) Z'Z)``: the cost of
    storing them with an error of epsilon. The paper maximizes it. Its public code minimizes ``exp(-rate)``
    (``form="exponential"``), and writes 0.5 where the rate has the square of epsilon. For the paper's form on
    proxies there is ``anti_collapse_proxies``.

    Example:
        >>> anti_collapse = AntiCollapse()
        >>> anti_collapse(torch.eye(2)), anti_collapse(torch.ones(2, 2))  # spread, collapsed
        (tensor(-1.0986), tensor(-0.8047))
    """

    epsilon_squared: float = 0.5
    """Square of the error epsilon."""
    form: Literal["rate", "exponential"] = "rate"
    """Minus the rate, or its exponential."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("epsilon_squared", self.epsilon_squared)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return the value of the formula above for embeddings (B x D); a scalar."""
        points = l2_normalize(as_float32(embeddings))
        count, size = points.shape
        return _loss(points, size / (max(count, 1) * self.epsilon_squared), self.form)


@register("anti_collapse_proxies", paper=PAPER, year=2024, sees=("labels", "proxies"))
class AntiCollapseProxies(Regularizer):
    """Negative coding rate of the proxies of the batch's classes, or of all classes.

    See ``anti_collapse``. With ``form="exponential"`` it is what the public code minimizes: ``exp(-r)`` with
    ``r = 1/2 log det(I + m / (D epsilon_squared) Z'Z)``, where the factor D / m of the rate is inverted.

    Example:
        >>> x, y = torch.zeros(2, 2), torch.tensor([0, 1])
        >>> AntiCollapseProxies()(x, labels=y, proxies=torch.eye(2))
        tensor(-1.0986)
    """

    of: Literal["batch", "all"] = "batch"
    """Proxies of the classes in the batch, or of all classes."""
    epsilon_squared: float = 0.5
    """Square of the error epsilon."""
    form: Literal["rate", "exponential"] = "rate"
    """Minus the rate, or its exponential."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("epsilon_squared", self.epsilon_squared)

    def forward(self, embeddings: Tensor, *, labels: Tensor, proxies: Tensor) -> Tensor:
        """Return the value, a scalar, for embeddings (B x D), labels (B) and proxies (C x D)."""
        rows = proxies if self.of == "all" else proxies[torch.unique(labels)]
        points = l2_normalize(as_float32(rows))
        count, size = points.shape
        ratio = size / max(count, 1) if self.form == "rate" else count / size
        return _loss(points, ratio / self.epsilon_squared, self.form) + as_float32(embeddings).sum() * 0


def _loss(points: Tensor, factor: float, form: str) -> Tensor:
    """Return the loss for the rate 1/2 log det(I + factor Z'Z); the smaller of Z'Z and ZZ' gives the same."""
    with torch.autocast(points.device.type, enabled=False):
        gram = points @ points.T if len(points) < points.shape[1] else points.T @ points
        matrix = factor * gram + torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        # Half the log determinant is the sum of the logs of the diagonal of the Cholesky factor.
        rate: Tensor = torch.linalg.cholesky(matrix).diagonal().log().sum()
    return -rate if form == "rate" else (-rate).exp()
