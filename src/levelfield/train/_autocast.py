"""Lower precision for the forward pass, with a scaler where float16 needs one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Autocast:
    """Runs forward passes in a precision; float32 leaves everything as it is.

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
        """The context of a forward pass."""
        return nullcontext() if self._dtype is None else torch.autocast(self._device, dtype=self._dtype)

    def backward(self, value: Tensor) -> None:
        """Gradients of ``value``, scaled if need be."""
        if not self._scaler.is_enabled():
            value.backward()  # type: ignore[no-untyped-call]
            return
        self._scaler.scale(value).backward()  # type: ignore[no-untyped-call]

    def step(self, optimizer: torch.optim.Optimizer, *, clip_norm: float | None = None) -> None:
        """One step on unscaled, and if asked clipped, gradients."""
        if clip_norm is not None:
            self._scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(
                [parameter for group in optimizer.param_groups for parameter in group["params"]], clip_norm
            )
        if self._scaler.is_enabled():
            self._scaler.step(optimizer)
            self._scaler.update()
        else:
            _bare_step(optimizer)

    def state(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return dict(self._scaler.state_dict())

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        if state:
            self._scaler.load_state_dict(state)


def _bare_step(optimizer: torch.optim.Optimizer) -> None:
    """``optimizer.step()`` without what PyTorch wraps around it for profilers and hooks.

    That takes as long as a small head's step itself. Nothing here registers hooks.
    """
    step = type(optimizer).step
    getattr(step, "__wrapped__", step)(optimizer)
