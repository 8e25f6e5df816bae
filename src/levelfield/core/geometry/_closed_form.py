"""Losses with a closed-form gradient: one autograd node instead of a dozen.

For small batches on a CPU, autograd takes most of a training step. A loss that is a function of all
distances or similarities of a batch can compute its gradient together with its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from levelfield.core.geometry._distances import (
    distance_divisor,
    euclidean_backward,
    euclidean_forward,
    normalize_backward,
    normalize_forward,
    products_backward,
    products_forward,
)
from levelfield.core.geometry._gradients import first_derivative_only

ValueAndGradient = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Function from a B x B matrix to a scalar and its gradient (B x B); it may modify the matrix in place."""


def loss_of_distances(vectors: Tensor, function: ValueAndGradient, *, normalize: bool = True) -> Tensor:
    """Apply ``function`` to the Euclidean distances between the rows of ``vectors`` (B x D).

    Args:
        vectors: B x D.
        function: Returns the loss and its gradient with respect to the distances.
        normalize: Scale the rows to unit length first.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
        >>> loss_of_distances(x, lambda d: (d.sum(), torch.ones_like(d))).item()  # 2 sqrt(2)
        2.8284...
    """
    with torch.no_grad():
        units, norms = normalize_forward(vectors) if normalize else (vectors, None)
        distances, centered = euclidean_forward(units)
        divisor = distance_divisor(distances)  # before `function` modifies the distances
        value, slope = function(distances)
        gradient = euclidean_backward(slope, centered, divisor)
        if norms is not None:
            gradient = normalize_backward(gradient, units, norms)
    return attach_gradient(value, vectors, gradient)


def loss_of_cosines(vectors: Tensor, function: ValueAndGradient) -> Tensor:
    """Apply ``function`` to the cosine similarities between the rows of ``vectors`` (B x D).

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [2.0, 0.0]], requires_grad=True)
        >>> loss_of_cosines(x, lambda s: (s.sum(), torch.ones_like(s))).item()
        4.0
    """
    with torch.no_grad():
        units, norms = normalize_forward(vectors)
        value, slope = function(products_forward(units))
        gradient = normalize_backward(products_backward(slope, units), units, norms)
    return attach_gradient(value, vectors, gradient)


def loss_of_products(vectors: Tensor, function: ValueAndGradient) -> Tensor:
    """Apply ``function`` to the dot products between the rows of ``vectors`` (B x D).

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [2.0, 0.0]], requires_grad=True)
        >>> loss_of_products(x, lambda s: (s.sum(), torch.ones_like(s))).item()
        9.0
    """
    with torch.no_grad():
        value, slope = function(products_forward(vectors))
        gradient = products_backward(slope, vectors)
    return attach_gradient(value, vectors, gradient)


def attach_gradient(value: Tensor, source: Tensor, gradient: Tensor) -> Tensor:
    """Return ``value``, a scalar computed without autograd, with a known gradient with respect to ``source``.

    Sums over triplets and ranks compute their gradient together with their value. Autograd would keep a B x B
    tensor for every positive instead.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> attach_gradient(torch.tensor(5.0), x, torch.tensor([2.0, 3.0])).backward()
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
