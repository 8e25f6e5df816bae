"""Bound on what building a network may allocate, so that a card cannot ask for more than its weights hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from levelfield.core.errors import LevelfieldError, UsageError

SPARE_ELEMENTS = 200_000_000  # a classifier that is built and dropped, random starts, position tables
MAX_OPERATIONS = 1_000_000
_SHAPED = (
    "empty",
    "zeros",
    "ones",
    "full",
    "rand",
    "randn",
    "new_empty",
    "new_zeros",
    "new_ones",
    "new_full",
)


class _Allocations(TorchDispatchMode):
    """Counter of the elements that operations allocate by shape; it raises before an allocation."""

    def __init__(self, limit: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no type here
        self._limit, self._elements, self._operations = limit, 0, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._operations += 1
        name = func.overloadpacket.__name__
        if name in _SHAPED:
            shape = next((each for each in args if isinstance(each, (list, tuple, torch.Size))), ())
            self._elements += math.prod(shape)
        elif name == "arange":
            self._elements += int(
                max((abs(each) for each in args if isinstance(each, (int, float))), default=0)
            )
        if self._elements > self._limit or self._operations > MAX_OPERATIONS:
            raise UsageError(
                "the architecture needs far more memory than its weights hold; the model card is wrong, "
                "export the model again, or download it again"
            )
        return func(*args, **(kwargs or {}))


@contextmanager
def bounded_building(tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Raise UsageError in the block if it allocates far more elements than ``tensors`` have, or fails."""
    limit = 4 * sum(tensor.numel() for tensor in tensors.values()) + SPARE_ELEMENTS
    try:
        with _Allocations(limit):
            yield
    except LevelfieldError:
        raise
    except (RuntimeError, TypeError, ValueError, OverflowError, MemoryError, ArithmeticError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise UsageError(
            f"the architecture of the model card cannot be built ({reason}); export the model again"
        ) from error
