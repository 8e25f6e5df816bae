"""Calls of optimizers that do not import PyTorch's compiler.

PyTorch marks methods of optimizers as not to be compiled, and imports its compiler to do so. That takes as
long as importing PyTorch, in every worker. Where nothing is compiled, the marks are not needed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

MARK = "__dynamo_disable"  # where PyTorch keeps the marked method after its first call


@contextmanager
def unmarked_methods() -> Iterator[None]:
    """Call the methods of optimizers inside the block as they are, unless the compiler is loaded already."""
    plain = []
    if "torch._dynamo" not in sys.modules:
        found = [getattr(each, "__wrapped__", None) for each in vars(torch.optim.Optimizer).values()]
        plain = [each for each in found if inspect.isfunction(each) and not hasattr(each, MARK)]
    for method in plain:
        setattr(method, MARK, method)
    try:
        yield
    finally:
        for method in plain:
            delattr(method, MARK)


def step_without_hooks(optimizer: torch.optim.Optimizer) -> None:
    """Call ``optimizer.step()`` without PyTorch's wrappers for profilers, hooks and the compiler.

    The wrappers take as long as the step of a small head. No code here registers hooks.
    """
    plain: Callable[[torch.optim.Optimizer], object] = inspect.unwrap(type(optimizer).step)
    with torch.no_grad():
        plain(optimizer)
