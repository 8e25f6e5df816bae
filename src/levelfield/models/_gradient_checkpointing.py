"""Gradient checkpointing: less memory, more computation."""

from __future__ import annotations

from levelfield.core.errors import UsageError
from levelfield.models._trunk import Trunk


def enable_gradient_checkpointing(trunk: Trunk) -> None:
    """Enable gradient checkpointing in ``trunk``; gradients do not change.

    Only the inputs of blocks are kept. Other activations are computed again in the backward pass.

    BatchNorm layers must not be in training mode: they would count each batch twice in their statistics.
    """
    switch = getattr(trunk.network, "set_grad_checkpointing", None)
    problem = "does not support gradient checkpointing"
    if switch is not None:
        try:
            switch(True)
            return
        except (AssertionError, RuntimeError, TypeError, NotImplementedError) as error:
            problem = f"cannot enable gradient checkpointing ({error})"
    raise UsageError(
        f"engine.recompute: trunk {trunk.name} {problem}; use the same network "
        "from timm (`timm:NAME`), or set training.chunk to save memory"
    )
