"""Reductions of one loss per tuple to a scalar."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

import torch
from torch import Tensor

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.geometry import attach_gradient

Reduction: TypeAlias = Literal["mean", "sum"]
"""Reduction of losses that are never exactly zero, or can be negative."""

HingeReduction: TypeAlias = Literal["mean", "mean_nonzero", "sum"]
"""Reduction of hinge losses; ``mean_nonzero`` leaves out tuples whose loss is zero."""

REDUCTIONS: tuple[str, ...] = get_args(HingeReduction)


class TupleSum(NamedTuple):
    """Sum of the losses of tuples, number of tuples, and number with a loss above zero (scalars)."""

    total: Tensor
    counts: Tensor
    nonzero: Tensor

    def reduce(self, reduction: HingeReduction) -> Tensor:
        """Return the sum or mean by ``reduction``; zero if there are no tuples.

        Example:
            >>> TupleSum(torch.tensor(6.0), torch.tensor(3), torch.tensor(2)).reduce("mean_nonzero")
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
    """Return the sum or mean of ``losses``, each counted ``counts`` times; both have the same shape.

    ``mean`` divides by the number of tuples, ``mean_nonzero`` by the number of tuples whose loss is above
    zero. Without tuples the result and its gradient are zero. Losses with count zero must be finite.

    Example:
        >>> losses, counts = torch.tensor([3.0, 0.0, 7.0]), torch.tensor([1.0, 2.0, 0.0])
        >>> [reduce(losses, counts, how).item() for how in ("mean", "mean_nonzero", "sum")]
        [1.0, 3.0, 3.0]
    """
    number = counts.sum()
    nonzero = losses.detach().clone().gt_(0).mul_(counts).sum() if reduction == "mean_nonzero" else number
    return TupleSum((losses * counts).sum(), number, nonzero).reduce(reduction)


def hinge_loss_and_gradient(
    values: Tensor, *terms: tuple[Tensor, int, float], reduction: HingeReduction
) -> tuple[Tensor, Tensor]:
    """Return the sum of several reduced :func:`hinge_sum` and its gradient, both outside of autograd.

    Each part is (counts, slope, offset); ``values`` and counts have the same shape.

    Example:
        >>> hinge_loss_and_gradient(torch.tensor([0.0, 2.0]), (torch.ones(2), -1, 1.0), reduction="mean")
        (tensor(0.5000), tensor([-0.5000,  0.0000]))
    """
    value, gradient = values.new_zeros(()), torch.zeros_like(values)
    for counts, slope, offset in terms:
        part, its_gradient = _plain_hinge_sum(values, counts, slope=slope, offset=offset)
        value += part.reduce(reduction)
        gradient += part._replace(total=its_gradient).reduce(reduction)
    return value, gradient


def hinge_sum(values: Tensor, counts: Tensor, *, slope: int, offset: float) -> TupleSum:
    """Return the sum of ``[slope * value + offset]+``, each counted ``counts`` times; same shapes.

    Example:
        >>> hinge_sum(torch.tensor([0.0, 0.5, 2.0]), torch.ones(3), slope=-1, offset=1.0).total
        tensor(1.5000)
    """
    with torch.no_grad():
        plain, gradient = _plain_hinge_sum(values, counts, slope=slope, offset=offset)
    return plain._replace(total=attach_gradient(plain.total, values, gradient))


def _plain_hinge_sum(values: Tensor, counts: Tensor, *, slope: int, offset: float) -> tuple[TupleSum, Tensor]:
    losses = (slope * values).add_(offset).relu_().mul_(counts)
    total = losses.sum()
    active = losses.sign_().mul_(counts)
    return TupleSum(total, counts.sum(), active.sum()), active.mul_(slope)
