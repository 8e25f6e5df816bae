"""Gradients written by hand: right once, and refused twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

from levelfield.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")


def first_derivative_only(backward: Callable[P, T]) -> Callable[P, T]:
    """Decorate a hand-written ``backward``: to autograd its result would be a constant.

    ``once_differentiable`` does not do: it lets a second derivative pass, and be wrong, where the incoming
    gradient is a constant.

    Example:
        >>> from levelfield.geometry import unit
        >>> x = torch.tensor([[3.0, 4.0]], requires_grad=True)
        >>> torch.autograd.grad(unit(x).sum(), x, create_graph=True)
        Traceback (most recent call last):
        ...
        levelfield.errors.UsageError: the losses have first derivatives only; leave out create_graph=True
    """

    @wraps(backward)
    def once(*args: P.args, **kwargs: P.kwargs) -> T:
        # Gradients are recorded in a backward pass only if it was asked for a second one.
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise UsageError("the losses have first derivatives only; leave out create_graph=True")
        return backward(*args, **kwargs)

    return once
