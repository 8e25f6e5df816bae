"""Mixed precision of the forward pass, with gradient scaling for float16."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.train._light_optimizer import step_without_hooks

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Autocast:
    """Autocast and gradient scaling of a run; float32 changes nothing.

    Example:
        >>> with Autocast("bfloat16", "cpu").forward():
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.bfloat16
    """

    def __init__(self, precision: str, device: str) -> None:
        self._device = torch.device(device).type
        self._dtype = DTYPES.get(precision)
        # float16 gradients underflow without scaling; bfloat16 has the range of float32
        self._scaler = torch.amp.GradScaler(self._device, enabled=precision == "float16")

    def forward(self) -> AbstractContextManager[Any]:
        """Return the context of a forward pass."""
        return nullcontext() if self._dtype is None else torch.autocast(self._device, dtype=self._dtype)

    def backward(self, value: Tensor) -> None:
        """Compute the gradients of ``value``, scaled for float16."""
        if not self._scaler.is_enabled():
            value.backward()  # type: ignore[no-untyped-call]  # torch has no types here
            return
        self._scaler.scale(value).backward()  # type: ignore[no-untyped-call]  # nor here

    def step(self, optimizer: torch.optim.Optimizer, *, clip_norm: float | None = None) -> None:
        """Take one optimizer step on unscaled gradients, clipped to ``clip_norm`` if given."""
        if clip_norm is not None:
            self._scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(
                [parameter for group in optimizer.param_groups for parameter in group["params"]], clip_norm
            )
        if self._scaler.is_enabled():
            self._scaler.step(optimizer)
            self._scaler.update()
        else:
            step_without_hooks(optimizer)

    def state(self) -> dict[str, Any]:
        """Return the state for resuming."""
        return dict(self._scaler.state_dict())

    def load_state(self, state: dict[str, Any]) -> None:
        """Load a state from :meth:`state`."""
        if state:
            self._scaler.load_state_dict(state)
