"""Hand-written gradients: first derivatives only."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

from levelfield.core.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")


def first_derivative_only(backward: Callable[P, T]) -> Callable[P, T]:
    """Decorate a hand-written ``backward`` so that second derivatives raise UsageError.

    Autograd would treat the result as a constant. PyTorch's ``once_differentiable`` is not enough: it
    returns a wrong second derivative if the incoming gradient is a constant.

    Example:
        >>> from levelfield.core.geometry import l2_normalize
        >>> x = torch.tensor([[3.0, 4.0]], requires_grad=True)
        >>> torch.autograd.grad(l2_normalize(x).sum(), x, create_graph=True)
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: the losses have first derivatives only; leave out create_graph=True
    """

    @wraps(backward)
    def once(*args: P.args, **kwargs: P.kwargs) -> T:
        # Gradients are enabled in a backward pass only if create_graph=True.
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise UsageError("the losses have first derivatives only; leave out create_graph=True")
        return backward(*args, **kwargs)

    return once
