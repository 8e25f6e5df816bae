"""Bound on what building a network may allocate, so that a card cannot ask for more than its weights hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from levelfield.core.errors import LevelfieldError, UsageError

SPARE_ELEMENTS = 200_000_000  # a classifier that is built and dropped, random starts, position tables
MAX_OPERATIONS = (
    20_000  # that allocate; timm's networks need 3,000, and one of many more layers takes too long
)
OPERATIONS_PER_TENSOR = 20  # of the weights; timm's networks need up to 8
MAX_CHANGES = 1_000_000  # in place, and views


class _Allocations(TorchDispatchMode):
    """Counter of operations and of the elements that they allocate; it raises before an allocation."""

    def __init__(self, max_elements: int, max_operations: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no type here
        self._max_elements, self._max_operations = max_elements, max_operations
        self._elements = self._operations = self._changes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # Otherwise it returns a view, or changes a tensor in place.
        if any(each.alias_info is None for each in func._schema.returns):
            self._operations += 1
            self._elements += _new_elements(func, args, kwargs or {})
        else:
            self._changes += 1
        if (
            self._elements > self._max_elements
            or self._operations > self._max_operations
            or self._changes > MAX_CHANGES
        ):
            raise UsageError(
                "the architecture needs far more memory or layers than its weights hold; the model card is "
                "wrong, export the model again, or download it again"
            )
        return func(*args, **(kwargs or {}))


def _new_elements(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return how many elements an operation would allocate; it is tried on tensors without content."""

    def without_content(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")

    args, kwargs = tree_map(without_content, (args, kwargs))
    if any(each.name == "device" for each in func._schema.arguments):
        kwargs = kwargs | {"device": torch.device("meta")}
    try:
        found = tree_leaves(func(*args, **kwargs))
    except (RuntimeError, NotImplementedError, TypeError, ValueError):  # it needs the content: a number, say
        return 0
    return sum(each.numel() for each in found if isinstance(each, Tensor))


@contextmanager
def bounded_building(tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Raise UsageError in the block if it allocates far more elements than ``tensors`` have, or fails."""
    limit = 4 * sum(tensor.numel() for tensor in tensors.values()) + SPARE_ELEMENTS
    operations = MAX_OPERATIONS + OPERATIONS_PER_TENSOR * len(tensors)
    try:
        with _Allocations(limit, operations):
            yield
    except LevelfieldError:
        raise
    except Exception as error:  # networks check their options in many ways, or not at all
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise UsageError(
            f"the architecture of the model card cannot be built ({reason}); export the model again"
        ) from error
