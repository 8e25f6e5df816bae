"""Distances between all samples of a batch, with gradients that stay finite where samples coincide.

Everything is computed in float32 or better, also under autocast: a half-precision dot product cannot
tell near neighbours apart.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import threshold

from levelfield.errors import UsageError
from levelfield.geometry._gradients import first_derivative_only


def checked(embeddings: Tensor, labels: Tensor) -> Tensor:
    """The embeddings (B x D) in float32 or float64, after a look at both shapes; labels are (B,).

    Example:
        >>> checked(torch.zeros(2, 3, dtype=torch.bfloat16), torch.zeros(2)).dtype
        torch.float32
    """
    if embeddings.ndim != 2 or not embeddings.is_floating_point():
        raise UsageError(
            f"embeddings must be a floating-point B x D tensor, got {embeddings.dtype} of shape "
            f"{tuple(embeddings.shape)}; flatten each sample to one vector"
        )
    if labels.shape != embeddings.shape[:1]:
        raise UsageError(
            f"labels of shape {tuple(labels.shape)} do not fit {embeddings.shape[0]} embeddings; "
            "give one label per embedding"
        )
    return embeddings if embeddings.dtype == torch.float64 else embeddings.float()


def unit(vectors: Tensor) -> Tensor:
    """Rows (N x D) scaled to length one; a zero row stays zero and its gradient finite.

    Example:
        >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    result: Tensor = _Unit.apply(vectors)
    return result


def products(vectors: Tensor) -> Tensor:
    """Dot products of all rows: N x D gives a symmetric N x N.

    Example:
        >>> products(torch.tensor([[1.0, 0.0], [1.0, 2.0]]))
        tensor([[1., 1.],
                [1., 5.]])
    """
    result: Tensor = _Products.apply(vectors)
    return result


def euclidean(vectors: Tensor, *, squared: bool = False) -> Tensor:
    """Euclidean distances of all rows: N x D gives a symmetric N x N with an exactly zero diagonal.

    Distances too small for the precision of the dot products behind them count as zero, and the
    gradient of a zero distance is zero.

    Example:
        >>> euclidean(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
        tensor([[0., 5.],
                [5., 0.]])
    """
    result: Tensor = _Euclidean.apply(vectors, squared)
    return result


def signal_to_noise(vectors: Tensor) -> Tensor:
    """``var(x - y) / var(x)`` for all rows: N x D gives N x N, the anchor x in the rows.

    The variance runs over the D components of one vector. An anchor without variance has distance zero to
    all others, and no gradient.

    Example:
        >>> signal_to_noise(torch.tensor([[0.0, 2.0], [0.0, 4.0]]))
        tensor([[0.0000, 1.0000],
                [0.2500, 0.0000]])
    """
    centred = vectors - vectors.mean(1, keepdim=True)
    noise = euclidean(centred, squared=True)
    signal = centred.square().sum(1, keepdim=True)
    rounding = (4 * torch.finfo(vectors.dtype).eps) ** 2 * vectors.square().sum(1, keepdim=True)
    varies = signal > rounding
    return noise * torch.where(varies, 1 / torch.where(varies, signal, 1.0), 0.0)


class _Unit(torch.autograd.Function):
    """x / |x|, whose gradient is what is left of the incoming one across x."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        units, norms = unit_and_norms(vectors)
        ctx.save_for_backward(units, norms)
        return units

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient_before_unit(gradient, *ctx.saved_tensors)


class _Products(torch.autograd.Function):
    """X X' with one matrix product in the backward pass, where autograd would take two."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        ctx.save_for_backward(vectors)
        return plain_products(vectors)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient_before_products(gradient, *ctx.saved_tensors)


class _Euclidean(torch.autograd.Function):
    """|x - y| from dot products, in B x B memory."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, squared: bool) -> Tensor:
        result, centred = plain_euclidean(vectors, squared=squared)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(centred, *([] if squared else [divisor_of(result)]))
        return result

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient_before_euclidean(gradient, *ctx.saved_tensors), None


# What follows knows nothing of autograd: values, and what carries a gradient from one to the other.


def unit_and_norms(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`unit`, and the lengths (N x 1) that it divided by."""
    norms = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    # The square of a component above 1e19 is no float32; a second pass with shorter vectors is rare.
    if not torch.compiler.is_compiling() and len(norms) and norms.amax().item() == torch.inf:
        largest = vectors.abs().amax(1, keepdim=True).clamp_(min=1.0)
        shorter = vectors / largest
        norms = torch.linalg.vector_norm(shorter, dim=1, keepdim=True)
        norms.masked_fill_(norms == 0, 1.0)
        return shorter / norms, norms * largest
    norms.masked_fill_(norms == 0, 1.0)
    return vectors / norms, norms


def gradient_before_unit(gradient: Tensor, units: Tensor, norms: Tensor) -> Tensor:
    """The gradient of what :func:`unit_and_norms` was given, from that of the units (N x D)."""
    along = (gradient * units).sum(1, keepdim=True)
    return torch.addcmul(gradient, units, along, value=-1).div_(norms)


def plain_products(vectors: Tensor) -> Tensor:
    """:func:`products`."""
    return _matmul(vectors, vectors.T)


def gradient_before_products(gradient: Tensor, vectors: Tensor) -> Tensor:
    """The gradient of the vectors (N x D), from that of their products (N x N)."""
    return _matmul(_with_transpose(gradient), vectors)


def plain_euclidean(vectors: Tensor, *, squared: bool = False) -> tuple[Tensor, Tensor]:
    """:func:`euclidean`, and the centred vectors, which its gradient needs.

    Distances do not change when the mean is subtracted, but their precision does: it is that of the vectors'
    squared lengths, and around their mean vectors that are close together are short.
    """
    limits = torch.finfo(vectors.dtype)
    vectors = vectors - vectors.mean(0)
    dots = _matmul(vectors, vectors.T)
    norms = dots.diagonal()
    both = norms[:, None] + norms
    relative = dots.mul_(-2).add_(both).div_(both.clamp_(min=limits.tiny))
    result = threshold(relative, 4 * limits.eps, 0.0, inplace=True).mul_(both)
    return (result if squared else result.sqrt_()), vectors


def divisor_of(distances: Tensor) -> Tensor:
    """What a gradient is divided by on its way before the root: an infinite zero makes it vanish there."""
    return threshold(distances, 0.0, torch.inf)


def gradient_before_euclidean(gradient: Tensor, vectors: Tensor, divisor: Tensor | None = None) -> Tensor:
    """The gradient of the vectors (N x D), from that of their distances (N x N)."""
    weights = _with_transpose(2 * gradient if divisor is None else gradient / divisor)
    others = _matmul(weights, vectors)
    return torch.addcmul(others.neg_(), weights.sum(1, keepdim=True), vectors)


def _with_transpose(matrix: Tensor) -> Tensor:
    """A + A'; the copy makes both operands run along rows, which more than pays for itself."""
    return matrix.T.contiguous().add_(matrix)


def _matmul(left: Tensor, right: Tensor) -> Tensor:
    """A matrix product that autocast leaves alone."""
    if not torch.is_autocast_enabled(left.device.type):
        return torch.mm(left, right)
    with torch.autocast(left.device.type, enabled=False):
        return torch.mm(left, right)
