"""Losses whose gradient is known as soon as their value is: one step for autograd instead of a dozen.

For small batches on a CPU most of a training step is the bookkeeping of autograd. A loss that is a function
of all distances or similarities of a batch, and knows its own slope, needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from levelfield.geometry._distances import (
    divisor_of,
    gradient_before_euclidean,
    gradient_before_products,
    gradient_before_unit,
    plain_euclidean,
    plain_products,
    unit_and_norms,
)
from levelfield.geometry._gradients import first_derivative_only

ValueAndSlope = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From a B x B matrix, which it may change, to a scalar and its gradient (B x B), outside of autograd."""


def loss_of_distances(vectors: Tensor, function: ValueAndSlope, *, normalize: bool = True) -> Tensor:
    """``function`` of the Euclidean distances of all rows of ``vectors`` (B x D), unit rows if ``normalize``.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
        >>> loss_of_distances(x, lambda d: (d.sum(), torch.ones_like(d))).item()  # 2 sqrt(2)
        2.8284...
    """
    with torch.no_grad():
        units, norms = unit_and_norms(vectors) if normalize else (vectors, None)
        distances, centred = plain_euclidean(units)
        divisor = divisor_of(distances)  # before the function changes them
        value, slope = function(distances)
        gradient = gradient_before_euclidean(slope, centred, divisor)
        if norms is not None:
            gradient = gradient_before_unit(gradient, units, norms)
    return with_gradient(value, vectors, gradient)


def loss_of_cosines(vectors: Tensor, function: ValueAndSlope) -> Tensor:
    """``function`` of the cosine similarities of all rows of ``vectors`` (B x D).

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [2.0, 0.0]], requires_grad=True)
        >>> loss_of_cosines(x, lambda s: (s.sum(), torch.ones_like(s))).item()
        4.0
    """
    with torch.no_grad():
        units, norms = unit_and_norms(vectors)
        value, slope = function(plain_products(units))
        gradient = gradient_before_unit(gradient_before_products(slope, units), units, norms)
    return with_gradient(value, vectors, gradient)


def with_gradient(value: Tensor, source: Tensor, gradient: Tensor) -> Tensor:
    """``value`` (a scalar computed without autograd), whose gradient with respect to ``source`` is known.

    Sums over triplets and ranks get their gradient in the pass that computes them; letting autograd record
    that pass would keep a B x B tensor for every positive.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with_gradient(torch.tensor(5.0), x, torch.tensor([2.0, 3.0])).backward()
        >>> x.grad
        tensor([2., 3.])
    """
    result: Tensor = _WithGradient.apply(source, value, gradient)
    return result


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return upstream * gradient, None, None
