"""From one loss per tuple to one number."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

import torch
from torch import Tensor

from levelfield.errors import UsageError, did_you_mean
from levelfield.geometry import with_gradient

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


def hinges(
    values: Tensor, *parts: tuple[Tensor, int, float], reduction: HingeReduction
) -> tuple[Tensor, Tensor]:
    """The sum of several reduced :func:`hinge_sum` and its gradient, both outside of autograd.

    Each part is (counts, slope, offset); ``values`` and counts have any one shape.

    Example:
        >>> hinges(torch.tensor([0.0, 2.0]), (torch.ones(2), -1, 1.0), reduction="mean")
        (tensor(0.5000), tensor([-0.5000,  0.0000]))
    """
    value, gradient = values.new_zeros(()), torch.zeros_like(values)
    for counts, slope, offset in parts:
        part, its_gradient = _plain_hinge_sum(values, counts, slope=slope, offset=offset)
        value += part.reduced(reduction)
        gradient += part._replace(total=its_gradient).reduced(reduction)
    return value, gradient


def hinge_sum(values: Tensor, counts: Tensor, *, slope: int, offset: float) -> Sum:
    """Sum of ``[slope * value + offset]+``, each taken ``counts`` times; both of any one shape.

    Example:
        >>> hinge_sum(torch.tensor([0.0, 0.5, 2.0]), torch.ones(3), slope=-1, offset=1.0).total
        tensor(1.5000)
    """
    with torch.no_grad():
        plain, gradient = _plain_hinge_sum(values, counts, slope=slope, offset=offset)
    return plain._replace(total=with_gradient(plain.total, values, gradient))


def _plain_hinge_sum(values: Tensor, counts: Tensor, *, slope: int, offset: float) -> tuple[Sum, Tensor]:
    losses = (slope * values).add_(offset).relu_().mul_(counts)
    total = losses.sum()
    active = losses.sign_().mul_(counts)
    return Sum(total, counts.sum(), active.sum()), active.mul_(slope)
