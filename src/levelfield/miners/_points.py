"""The points that a miner compares."""

from __future__ import annotations

from torch import Tensor

from levelfield.errors import UsageError
from levelfield.geometry import checked, unit


def checked_points(embeddings: Tensor, labels: Tensor, *, normalize: bool = True) -> Tensor:
    """The embeddings (B x D) in float32 or better and without a gradient, of unit length if ``normalize``.

    Half precision is raised before anything is compared: rounding must not decide what is hard.

    Example:
        >>> import torch
        >>> checked_points(torch.tensor([[3.0, 4.0]]), torch.tensor([0])).tolist()
        [[0.6000000238418579, 0.800000011920929]]
    """
    points = checked(embeddings.detach(), labels)
    if len(labels) == 0:
        raise UsageError(f"a miner takes a batch B x D of one sample at least, got {tuple(embeddings.shape)}")
    return unit(points) if normalize else points
