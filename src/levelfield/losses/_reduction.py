"""From one loss per tuple to one number."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from levelfield.errors import UsageError, did_you_mean

Reduction: TypeAlias = Literal["mean", "mean_nonzero", "sum"]
REDUCTIONS: tuple[str, ...] = get_args(Reduction)


def reduce(losses: Tensor, counts: Tensor, reduction: Reduction) -> Tensor:
    """The sum or mean of ``losses``, each taken ``counts`` times; both of any one shape.

    ``mean`` divides by the number of tuples, ``mean_nonzero`` by the number of tuples whose loss is above
    zero. Without any tuple the result is zero, and so is its gradient. Losses with count zero must be finite.

    Example:
        >>> losses, counts = torch.tensor([3.0, 0.0, 7.0]), torch.tensor([1.0, 2.0, 0.0])
        >>> [reduce(losses, counts, how).item() for how in ("mean", "mean_nonzero", "sum")]
        [1.0, 3.0, 3.0]
    """
    total = torch.dot(losses.flatten(), counts.flatten())
    nonzero = (
        torch.dot((losses > 0).to(counts.dtype).flatten(), counts.flatten()) if _skips(reduction) else None
    )
    return divide(total, counts=counts.sum(), nonzero=nonzero, reduction=reduction)


def divide(total: Tensor, *, counts: Tensor, nonzero: Tensor | None, reduction: Reduction) -> Tensor:
    """A sum of losses over what ``reduction`` divides it by: ``counts`` or ``nonzero`` tuples (scalars)."""
    if reduction not in REDUCTIONS:
        raise UsageError(f'unknown reduction "{reduction}"{did_you_mean(str(reduction), REDUCTIONS)}')
    if reduction == "sum":
        return total
    divisor = nonzero if nonzero is not None and _skips(reduction) else counts
    return total / divisor.clamp(min=1)


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


def _skips(reduction: str) -> bool:
    return reduction == "mean_nonzero"


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return upstream * gradient, None, None
