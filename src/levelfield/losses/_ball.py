"""Distances in the Poincare ball, for losses that look for hierarchies."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from levelfield.geometry import euclidean, unit


def distances_in_ball(vectors: Tensor, *, curvature: float, clip_radius: float) -> Tensor:
    """The geodesic distances of all rows: N x D gives N x N.

    A vector longer than ``clip_radius`` is shortened to it; the exponential map at the origin then takes x to
    ``tanh(sqrt(c) |x|) x / (sqrt(c) |x|)`` in the ball of curvature -c, in which
    ``sinh(sqrt(c) d / 2) = sqrt(c) |y - z| / sqrt((1 - c |y|^2) (1 - c |z|^2))``.

    Example:
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
        >>> distances_in_ball(x, curvature=0.1, clip_radius=2.3)[0]  # twice as far as before the map
        tensor([0., 2., 2.])
    """
    root = math.sqrt(curvature)
    lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp(max=clip_radius) * root
    stretch = lengths.cosh()  # 1 / sqrt(1 - c |y|^2), without the difference of almost equal numbers
    apart = euclidean(unit(vectors) * lengths.tanh())  # sqrt(c) |y - z|
    distances: Tensor = (apart * stretch * stretch.T).asinh() * (2 / root)
    return distances
