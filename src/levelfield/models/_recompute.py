"""Less memory for more work: activations that are computed again in the backward pass instead of kept."""

from __future__ import annotations

from levelfield.errors import UsageError
from levelfield.models._trunk import Trunk


def recompute_activations(trunk: Trunk) -> None:
    """Let ``trunk`` keep only what its blocks begin with; gradients have the same bits.

    BatchNorm layers must not be in training mode: they would count each batch twice in their statistics.
    """
    switch = getattr(trunk.network, "set_grad_checkpointing", None)
    problem = "has no way to do it"
    if switch is not None:
        try:
            switch(True)
            return
        except (AssertionError, RuntimeError, TypeError, NotImplementedError) as error:
            problem = f"refuses ({error})"
    raise UsageError(
        f"engine.recompute: trunk {trunk.name} {problem}; take the same network from timm "
        "(`timm:NAME`), or set training.chunk to save memory"
    )
