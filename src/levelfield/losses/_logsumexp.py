"""Row-wise log-sum-exp over the masked entries of a matrix.

The code uses few temporaries: on a CPU, allocating one costs more than its arithmetic.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from levelfield.core.geometry import first_derivative_only

FAR = 1e30
"""Larger than any similarity or distance, and a valid float32."""


def log_sum_exp(matrix: Tensor, mask: Tensor, *, plus_one: bool = False) -> Tensor:
    """Return ``log(sum exp)`` over the entries of each row whose ``mask`` is one; N x M gives N.

    For a row without entries the result is ``-inf`` and its gradient zero. With ``plus_one`` the result is
    ``log(1 + sum exp)``, and zero for a row without entries.

    Example:
        >>> rows = torch.tensor([[0.0, 1000.0], [0.0, 0.0]])
        >>> log_sum_exp(rows, torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
        tensor([1000., -inf])
        >>> log_sum_exp(rows, torch.tensor([[1.0, 0.0], [0.0, 0.0]]), plus_one=True)
        tensor([0.6931, 0.0000])
    """
    result: Tensor = _LogSumExp.apply(matrix, mask, plus_one)
    return result


def log_sum_exps(
    matrix: Tensor, positive: Tensor, negative: Tensor, *, plus_one: bool = False
) -> tuple[Tensor, Tensor]:
    """Return :func:`log_sum_exp` over the positives and over the negatives of each row, at the cost of one.

    The masks must not overlap.

    Example:
        >>> row, one, two = torch.tensor([[0.0, 3.0]]), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> log_sum_exps(row, one, two)
        (tensor([0.]), tensor([3.]))
    """
    pull, push = _LogSumExps.apply(matrix, positive, negative, plus_one)
    return pull, push


def softmax_weights(matrix: Tensor, mask: Tensor, *, plus_one: bool) -> tuple[Tensor, Tensor]:
    """Return :func:`log_sum_exp` and its gradient, the share of each entry in its row's sum; no autograd.

    Example:
        >>> softmax_weights(torch.zeros(1, 3), torch.tensor([[1.0, 1.0, 0.0]]), plus_one=False)
        (tensor([0.6931]), tensor([[0.5000, 0.5000, 0.0000]]))
    """
    top = _top(matrix, mask, plus_one=plus_one)
    weights = clamped_exp(matrix - top).mul_(mask)
    value, inverse = _log(weights.sum(1, keepdim=True), top, plus_one=plus_one)
    return value, weights.mul_(inverse)


class _LogSumExp(torch.autograd.Function):
    """Log-sum-exp that saves only the softmax weights, which are its gradient."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, mask: Tensor, plus_one: bool) -> Tensor:
        value, weights = softmax_weights(matrix, mask, plus_one=plus_one)
        ctx.save_for_backward(weights)
        return value

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (weights,) = ctx.saved_tensors
        return weights * gradient[:, None], None, None


class _LogSumExps(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, matrix: Tensor, positive: Tensor, negative: Tensor, plus_one: bool
    ) -> tuple[Tensor, Tensor]:
        both = log_sum_exp_parts(matrix, positive, negative, plus_one=plus_one)
        ctx.save_for_backward(*both)
        return both.pull, both.push

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, pull: Tensor, push: Tensor) -> tuple[Tensor, None, None, None]:
        return LogSumExpParts(*ctx.saved_tensors).slope(pull[:, None], push[:, None]), None, None, None


class LogSumExpParts(NamedTuple):
    """Values of :func:`log_sum_exps`, and the parts of its gradient.

    Attributes:
        pull: N, over the positives.
        push: N, over the negatives.
        pulls: N x M, the exponentials of the positives, zero elsewhere.
        pushes: N x M, the exponentials of the negatives.
        pull_inverse: N x 1, one over the sum of ``pulls``.
        push_inverse: N x 1, one over the sum of ``pushes``.
    """

    pull: Tensor
    push: Tensor
    pulls: Tensor
    pushes: Tensor
    pull_inverse: Tensor
    push_inverse: Tensor

    def slope(self, pull: Tensor | float, push: Tensor | float) -> Tensor:
        """Return the matrix's gradient (N x M) from those of ``pull`` and ``push`` (N x 1, or numbers)."""
        slope = self.pushes * (push * self.push_inverse)
        return slope.addcmul_(self.pulls, pull * self.pull_inverse)


def log_sum_exp_parts(
    matrix: Tensor, positive: Tensor, negative: Tensor, *, plus_one: bool
) -> LogSumExpParts:
    """Return the values of :func:`log_sum_exps` and the parts of their gradients; no autograd.

    One exponential serves both sums: each entry is relative to the maximum of its own kind.
    """
    pull_top = _top(matrix, positive, plus_one=plus_one)
    push_top = _top(matrix, negative, plus_one=plus_one)
    pushes = clamped_exp((matrix - push_top).addcmul_(positive, push_top - pull_top))
    pulls = pushes * positive
    pushes.mul_(negative)
    pull, pull_inverse = _log(pulls.sum(1, keepdim=True), pull_top, plus_one=plus_one)
    push, push_inverse = _log(pushes.sum(1, keepdim=True), push_top, plus_one=plus_one)
    return LogSumExpParts(pull, push, pulls, pushes, pull_inverse, push_inverse)


def _top(matrix: Tensor, mask: Tensor, *, plus_one: bool) -> Tensor:
    """Return the largest masked entry of each row, N x 1; zero if there is none.

    The other entries are shifted by a large number: on a CPU adding is much faster than filling.
    """
    top = (mask - 1).mul_(FAR).add_(matrix).amax(1, keepdim=True)
    return top.clamp_(min=0.0) if plus_one else top.masked_fill_(top < -FAR / 2, 0.0)


def clamped_exp(matrix: Tensor) -> Tensor:
    """Return the exponential, in place, of clamped entries: on a CPU underflow is slow.

    Example:
        >>> clamped_exp(torch.tensor([0.0, -torch.inf])) > 0
        tensor([True, True])
    """
    limit = -math.log(torch.finfo(matrix.dtype).tiny) - 1
    return matrix.clamp_(min=-limit, max=limit).exp_()


def _log(total: Tensor, top: Tensor, *, plus_one: bool) -> tuple[Tensor, Tensor]:
    """Return the logarithm (N) of sums relative to ``top`` (both N x 1), and one over the sum (N x 1)."""
    if plus_one:
        value = torch.log1p(total + torch.expm1(-top)) + top  # exact for tiny sums too
        total = total + torch.exp(-top)
    else:
        value = total.log() + top
    return value.squeeze(1), torch.where(total > 0, 1 / total, 0.0)
