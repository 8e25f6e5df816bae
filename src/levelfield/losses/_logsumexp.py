"""Row-wise log-sum-exp over some of a row's entries."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

FAR = 1e30
"""Beyond any similarity or distance, and still a float32."""


def log_sum_exp(matrix: Tensor, mask: Tensor, *, plus_one: bool = False) -> Tensor:
    """``log(sum exp)`` over the entries of each row whose ``mask`` is one, not zero; N x M gives N.

    Where a row has none, the result is ``-inf`` and its gradient zero. With
    ``plus_one`` it is ``log(1 + sum exp)``, and zero where a row has none.

    Example:
        >>> rows = torch.tensor([[0.0, 1000.0], [0.0, 0.0]])
        >>> log_sum_exp(rows, torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
        tensor([1000., -inf])
        >>> log_sum_exp(rows, torch.tensor([[1.0, 0.0], [0.0, 0.0]]), plus_one=True)
        tensor([0.6931, 0.0000])
    """
    result: Tensor = _LogSumExp.apply(matrix, mask, plus_one)
    return result


def softmax_weights(matrix: Tensor, mask: Tensor, *, plus_one: bool) -> tuple[Tensor, Tensor]:
    """:func:`log_sum_exp` and its gradient, the share of each entry in its row's sum; outside autograd.

    Example:
        >>> softmax_weights(torch.zeros(1, 3), torch.tensor([[1.0, 1.0, 0.0]]), plus_one=False)
        (tensor([0.6931]), tensor([[0.5000, 0.5000, 0.0000]]))
    """
    # Adding is faster than filling where the mask is zero; the exponential of FAR below is zero all the same.
    kept = torch.add(matrix, mask - 1, alpha=FAR)
    top = kept.amax(1, keepdim=True)
    top = top.clamp_(min=0.0) if plus_one else top.masked_fill_(top < -FAR / 2, 0.0)
    weights = kept.sub_(top).exp_()
    total = weights.sum(1, keepdim=True)
    if plus_one:
        value = torch.log1p(total + torch.expm1(-top)) + top  # exact also where the sum is tiny
        total = total + torch.exp(-top)
    else:
        value = total.log() + top
    return value.squeeze(1), weights.div_(torch.where(total > 0, total, 1.0))


class _LogSumExp(torch.autograd.Function):
    """Keeps the softmax weights: they are the gradient, and nothing else of N x M need be saved."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, mask: Tensor, plus_one: bool) -> Tensor:
        value, weights = softmax_weights(matrix, mask, plus_one=plus_one)
        ctx.save_for_backward(weights)
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (weights,) = ctx.saved_tensors
        return weights * gradient[:, None], None, None
