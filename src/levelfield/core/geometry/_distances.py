"""Distances between all samples of a batch, with finite gradients for identical samples.

All computations use float32 or float64, also under autocast: half-precision dot products cannot distinguish
near neighbors.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import threshold

from levelfield.core.errors import UsageError
from levelfield.core.geometry._gradients import first_derivative_only


def check_embeddings(embeddings: Tensor, labels: Tensor) -> Tensor:
    """Return the embeddings (B x D) in float32 or float64; raise UsageError for wrong shapes or dtypes.

    Example:
        >>> check_embeddings(torch.zeros(2, 3, dtype=torch.bfloat16), torch.zeros(2)).dtype
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
    return as_float32(embeddings)


def as_float32(vectors: Tensor) -> Tensor:
    """Return vectors in float32, or as they are in float64; half precision overflows in squares and sums.

    Example:
        >>> as_float32(torch.zeros(2, 3, dtype=torch.float16)).dtype
        torch.float32
    """
    return vectors if vectors.dtype == torch.float64 else vectors.float()


def l2_normalize(vectors: Tensor) -> Tensor:
    """Return the rows (N x D) scaled to length 1. A zero row stays zero, with a finite gradient.

    Example:
        >>> l2_normalize(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    result: Tensor = _Unit.apply(vectors)
    return result


def dot_products(vectors: Tensor) -> Tensor:
    """Return the dot products of all pairs of rows: N x D gives a symmetric N x N.

    Example:
        >>> dot_products(torch.tensor([[1.0, 0.0], [1.0, 2.0]]))
        tensor([[1., 1.],
                [1., 5.]])
    """
    result: Tensor = _Products.apply(vectors)
    return result


def euclidean(vectors: Tensor, *, squared: bool = False) -> Tensor:
    """Return the Euclidean distances of all pairs of rows: N x D gives a symmetric N x N with zero diagonal.

    Distances below the precision of the underlying dot products are set to zero. The gradient of a zero
    distance is zero.

    Example:
        >>> euclidean(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
        tensor([[0., 5.],
                [5., 0.]])
    """
    result: Tensor = _Euclidean.apply(vectors, squared)
    return result


def row_distances(left: Tensor, right: Tensor) -> Tensor:
    """Return the Euclidean distances of matching rows (N x D): N. The gradient of a zero distance is zero.

    Example:
        >>> row_distances(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([[3.0, 4.0], [1.0, 1.0]]))
        tensor([5., 0.])
    """
    squares = (left - right).square().sum(dim=1)
    apart = squares != 0  # NaN stays NaN
    return torch.where(apart, torch.where(apart, squares, 1.0).sqrt(), 0.0)


def signal_to_noise(vectors: Tensor) -> Tensor:
    """Return ``var(x - y) / var(x)`` for all pairs of rows: N x D gives N x N, with the anchor x in the rows.

    The variance is taken over the D components of a vector. An anchor without variance has distance zero to
    all samples, and no gradient.

    Example:
        >>> signal_to_noise(torch.tensor([[0.0, 2.0], [0.0, 4.0]]))
        tensor([[0.0000, 1.0000],
                [0.2500, 0.0000]])
    """
    centered = vectors - vectors.mean(1, keepdim=True)
    noise = euclidean(centered, squared=True)
    signal = centered.square().sum(1, keepdim=True)
    rounding = (4 * torch.finfo(vectors.dtype).eps) ** 2 * vectors.square().sum(1, keepdim=True)
    varies = signal > rounding
    return noise * torch.where(varies, 1 / torch.where(varies, signal, 1.0), 0.0)


class _Unit(torch.autograd.Function):
    """x / |x|; its gradient is the incoming gradient without the component along x."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        units, norms = normalize_forward(vectors)
        ctx.save_for_backward(units, norms)
        return units

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return normalize_backward(gradient, *ctx.saved_tensors)


class _Products(torch.autograd.Function):
    """X X' with one matrix product in the backward pass; autograd would take two."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        ctx.save_for_backward(vectors)
        return products_forward(vectors)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return products_backward(gradient, *ctx.saved_tensors)


class _Euclidean(torch.autograd.Function):
    """|x - y| from dot products, with O(B^2) memory."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, squared: bool) -> Tensor:
        result, centered = euclidean_forward(vectors, squared=squared)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(centered, *([] if squared else [distance_divisor(result)]))
        return result

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return euclidean_backward(gradient, *ctx.saved_tensors), None


# Forward and backward functions without autograd.


def normalize_forward(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the result of :func:`l2_normalize`, and the norms (N x 1) it divided by."""
    norms = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    # The square of a component above 1e19 overflows float32. Scale such rare vectors down and repeat.
    if not torch.compiler.is_compiling() and len(norms) and norms.amax().item() == torch.inf:
        largest = vectors.abs().amax(1, keepdim=True).clamp_(min=1.0)
        shorter = vectors / largest
        norms = torch.linalg.vector_norm(shorter, dim=1, keepdim=True)
        norms.masked_fill_(norms == 0, 1.0)
        return shorter / norms, norms * largest
    norms.masked_fill_(norms == 0, 1.0)
    return vectors / norms, norms


def normalize_backward(gradient: Tensor, units: Tensor, norms: Tensor) -> Tensor:
    """Return the gradient of the input of :func:`normalize_forward`, from that of its units (N x D)."""
    along = (gradient * units).sum(1, keepdim=True)
    return torch.addcmul(gradient, units, along, value=-1).div_(norms)


def products_forward(vectors: Tensor) -> Tensor:
    """Return the result of :func:`dot_products`."""
    return _matmul(vectors, vectors.T)


def products_backward(gradient: Tensor, vectors: Tensor) -> Tensor:
    """Return the gradient of the vectors (N x D), from that of their dot products (N x N)."""
    return _matmul(plus_transpose(gradient), vectors)


def euclidean_forward(vectors: Tensor, *, squared: bool = False) -> tuple[Tensor, Tensor]:
    """Return the result of :func:`euclidean`, and the centered vectors for :func:`euclidean_backward`.

    Subtracting the mean does not change distances, but improves their precision, which is relative to the
    squared norms of the vectors.
    """
    limits = torch.finfo(vectors.dtype)
    vectors = vectors - vectors.mean(0)
    dots = _matmul(vectors, vectors.T)
    norms = dots.diagonal()
    both = norms[:, None] + norms
    relative = dots.mul_(-2).add_(both).div_(both.clamp_(min=limits.tiny))
    result = threshold(relative, 4 * limits.eps, 0.0, inplace=True).mul_(both)
    return (result if squared else result.sqrt_()), vectors


def distance_divisor(distances: Tensor) -> Tensor:
    """Return the divisor of the square root's gradient; infinite at distance 0, so that the gradient is 0."""
    return threshold(distances, 0.0, torch.inf)


def euclidean_backward(gradient: Tensor, vectors: Tensor, divisor: Tensor | None = None) -> Tensor:
    """Return the gradient of the vectors (N x D), from that of their distances (N x N)."""
    weights = plus_transpose(2 * gradient if divisor is None else gradient / divisor)
    others = _matmul(weights, vectors)
    return torch.addcmul(others.neg_(), weights.sum(1, keepdim=True), vectors)


def plus_transpose(matrix: Tensor) -> Tensor:
    """Return A + A'; the contiguous copy is faster than adding a transposed view.

    Example:
        >>> plus_transpose(torch.tensor([[0.0, 1.0], [0.0, 0.0]])).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    return matrix.T.contiguous().add_(matrix)


def _matmul(left: Tensor, right: Tensor) -> Tensor:
    """Return the matrix product, without autocast."""
    if not torch.is_autocast_enabled(left.device.type):
        return torch.mm(left, right)
    with torch.autocast(left.device.type, enabled=False):
        return torch.mm(left, right)
