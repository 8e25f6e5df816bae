"""From one loss per tuple to one number."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import torch
from torch import Tensor

from levelfield.errors import UsageError, did_you_mean
from levelfield.geometry import first_derivative_only

Reduction: TypeAlias = Literal["mean", "sum"]
"""For losses that are never exactly zero, or can be negative."""

HingeReduction: TypeAlias = Literal["mean", "mean_nonzero", "sum"]
"""For hinges: ``mean_nonzero`` leaves out the tuples that are satisfied."""

REDUCTIONS: tuple[str, ...] = get_args(HingeReduction)


class Sum(NamedTuple):
    """A sum of losses, of how many tuples, and how many of those have a loss above zero (scalars)."""

    total: Tensor
    counts: Tensor
    nonzero: Tensor

    def reduced(self, reduction: HingeReduction) -> Tensor:
        """What ``reduction`` makes of it; zero if there are no tuples.

        Example:
            >>> Sum(torch.tensor(6.0), torch.tensor(3), torch.tensor(2)).reduced("mean_nonzero")
            tensor(3.)
        """
        if reduction == "sum":
            return self.total
        if reduction == "mean":
            return self.total / self.counts.clamp(min=1)
        if reduction == "mean_nonzero":
            return self.total / self.nonzero.clamp(min=1)
        raise UsageError(f'unknown reduction "{reduction}"{did_you_mean(str(reduction), REDUCTIONS)}')


def reduce(losses: Tensor, counts: Tensor, reduction: HingeReduction) -> Tensor:
    """The sum or mean of ``losses``, each taken ``counts`` times; both of any one shape.

    ``mean`` divides by the number of tuples, ``mean_nonzero`` by the number of tuples whose loss is above
    zero. Without any tuple the result is zero, and so is its gradient. Losses with count zero must be finite.

    Example:
        >>> losses, counts = torch.tensor([3.0, 0.0, 7.0]), torch.tensor([1.0, 2.0, 0.0])
        >>> [reduce(losses, counts, how).item() for how in ("mean", "mean_nonzero", "sum")]
        [1.0, 3.0, 3.0]
    """
    number = counts.sum()
    nonzero = losses.detach().clone().gt_(0).mul_(counts).sum() if reduction == "mean_nonzero" else number
    return Sum((losses * counts).sum(), number, nonzero).reduced(reduction)


def hinge_sum(values: Tensor, counts: Tensor, *, slope: int, offset: float) -> Sum:
    """Sum of ``[slope * value + offset]+``, each taken ``counts`` times; both of any one shape.

    Example:
        >>> hinge_sum(torch.tensor([0.0, 0.5, 2.0]), torch.ones(3), slope=-1, offset=1.0).total
        tensor(1.5000)
    """
    with torch.no_grad():
        losses = (slope * values).add_(offset).relu_().mul_(counts)
        total = losses.sum()
        active = losses.sign_().mul_(counts)
        nonzero = active.sum()
    return Sum(with_gradient(total, values, active.mul_(slope)), counts.sum(), nonzero)


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
