"""Cosine and sine of the angle between rows, without arccosine and its infinite slope."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from levelfield.core.geometry import first_derivative_only


def cosine_and_sine(samples: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosine and sine (B each) of the angle between matching rows of two sets of unit vectors (B x D).

    Both come from the lengths of x - w and x + w. One of the two is exact even for the smallest angle to w or
    -w. So value and gradient are exact at any angle except 0 and 180 degrees, where the gradient has no
    direction and is zero. It is the gradient along the sphere. Normalization removes the other component
    anyway.

    Example:
        >>> x = torch.tensor([[1.0, 0.0]])
        >>> cosine_and_sine(x, torch.tensor([[0.6, 0.8]]))
        (tensor([0.6000]), tensor([0.8000]))
    """
    cosine, sine = _CosineAndSine.apply(samples, targets)
    return cosine, sine


class _CosineAndSine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, samples: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        apart, together = samples - targets, samples + targets
        chord = torch.linalg.vector_norm(apart, dim=1, keepdim=True)
        other = torch.linalg.vector_norm(together, dim=1, keepdim=True)
        cosine = (other.square() - chord.square()) / 4
        sine = chord * other / 2
        near = cosine >= 0
        along = torch.where(near, -apart, together)  # gradient of the cosine along the sphere
        ratio = -cosine / sine.clamp(min=torch.finfo(sine.dtype).tiny)
        ctx.save_for_backward(along, ratio, torch.where(near, -1.0, 1.0).to(cosine.dtype))
        return cosine.squeeze(1), sine.squeeze(1)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, of_cosine: Tensor, of_sine: Tensor) -> tuple[Tensor, Tensor]:
        along, ratio, sign = ctx.saved_tensors
        result = of_cosine[:, None] * along + of_sine[:, None] * (ratio * along)
        return result, result * sign
