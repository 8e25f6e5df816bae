"""Distances in the Poincare ball, for hierarchical losses."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from levelfield.core.geometry import euclidean, l2_normalize


def poincare_distances(vectors: Tensor, *, curvature: float, clip_radius: float) -> Tensor:
    """Return the geodesic distances of all rows: N x D gives N x N.

    A vector longer than ``clip_radius`` is shortened to it. The exponential map at the origin maps x to
    ``tanh(sqrt(c) |x|) x / (sqrt(c) |x|)`` in the ball of curvature -c. There,
    ``sinh(sqrt(c) d / 2) = sqrt(c) |y - z| / sqrt((1 - c |y|^2) (1 - c |z|^2))``.

    Example:
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
        >>> poincare_distances(x, curvature=0.1, clip_radius=2.3)[0]  # twice the distance before the map
        tensor([0., 2., 2.])
    """
    root = math.sqrt(curvature)
    lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp(max=clip_radius) * root
    stretch = lengths.cosh()  # 1 / sqrt(1 - c |y|^2), without cancellation
    apart = euclidean(l2_normalize(vectors) * lengths.tanh())  # sqrt(c) |y - z|
    distances: Tensor = (apart * stretch * stretch.T).asinh() * (2 / root)
    return distances
