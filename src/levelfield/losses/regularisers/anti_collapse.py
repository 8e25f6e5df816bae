"""Anti-collapse: embeddings, or proxies, that need many bits to be told apart."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.geometry import unit
from levelfield.losses.regularisers import register

PAPER = "Anti-Collapse Loss for Deep Metric Learning Based on Coding Rate Metric"


@register("anti_collapse", paper=PAPER, year=2024)
def anti_collapse(
    embeddings: Tensor, *, epsilon_squared: float = 0.5, form: Literal["rate", "exponential"] = "rate"
) -> Tensor:
    """Minus the coding rate of the embeddings, in nats: it falls as they spread over more directions.

    The rate of m unit vectors Z (m x D) is ``1/2 log det(I + D / (m epsilon_squared) Z'Z)``, what it takes to
    store them up to an error of epsilon. The paper maximises it; its public code minimises ``exp(-rate)``
    (``form="exponential"``), and writes 0.5 where the rate has the square of epsilon. For the paper's form on
    proxies there is ``anti_collapse_proxies``.

    Example:
        >>> anti_collapse(torch.eye(2)), anti_collapse(torch.ones(2, 2))  # spread, collapsed
        (tensor(-1.0986), tensor(-0.8047))
    """
    points = unit(embeddings if embeddings.dtype == torch.float64 else embeddings.float())
    count, size = points.shape
    return _loss(points, size / (max(count, 1) * _checked(epsilon_squared)), form)


@register("anti_collapse_proxies", paper=PAPER, year=2024, sees=("labels", "proxies"))
def anti_collapse_proxies(
    embeddings: Tensor,
    *,
    labels: Tensor,
    proxies: Tensor,
    of: Literal["batch", "all"] = "batch",
    epsilon_squared: float = 0.5,
    form: Literal["rate", "exponential"] = "rate",
) -> Tensor:
    """Minus the coding rate of the proxies of the batch's classes, or of all classes.

    See ``anti_collapse``. With ``form="exponential"`` it is what the public code minimises: ``exp(-r)`` with
    ``r = 1/2 log det(I + m / (D epsilon_squared) Z'Z)``, whose factor is that of the rate turned over.

    Example:
        >>> x, y = torch.zeros(2, 2), torch.tensor([0, 1])
        >>> anti_collapse_proxies(x, labels=y, proxies=torch.eye(2))
        tensor(-1.0986)
    """
    rows = proxies if of == "all" else proxies[torch.unique(labels)]
    points = unit(rows if rows.dtype == torch.float64 else rows.float())
    count, size = points.shape
    ratio = size / max(count, 1) if form == "rate" else count / size
    return _loss(points, ratio / _checked(epsilon_squared), form) + embeddings.sum() * 0


def _loss(points: Tensor, factor: float, form: str) -> Tensor:
    """From the rate 1/2 log det(I + factor Z'Z), by the smaller of Z'Z and ZZ': both give the same."""
    with torch.autocast(points.device.type, enabled=False):
        gram = points @ points.T if len(points) < points.shape[1] else points.T @ points
        matrix = factor * gram + torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        # Half the log of the determinant is the sum of the logs along the diagonal of the Cholesky factor.
        rate: Tensor = torch.linalg.cholesky(matrix).diagonal().log().sum()
    return -rate if form == "rate" else (-rate).exp()


def _checked(epsilon_squared: float) -> float:
    if not epsilon_squared > 0:
        raise UsageError(f"epsilon_squared must be above 0, got {epsilon_squared!r}")
    return epsilon_squared
