"""Random choice that is the same on every device and under every resume."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.seeds import torch_generator


class Drawing:
    """Base of the miners that draw at random.

    They own a generator, so that nothing else disturbs their stream. A training loop calls
    :meth:`reseed` before each epoch, which makes a resumed run draw what an unbroken one draws.

    Args:
        generator: Draw from this one; it stays yours, and ``reseed`` seeds it.
        seed: Or start a new generator from this seed (default 0).
    """

    def __init__(self, *, generator: torch.Generator | None = None, seed: int | None = None) -> None:
        if generator is not None and seed is not None:
            raise UsageError(f"a miner takes a generator or a seed, not both; drop seed {seed}")
        self.generator = torch_generator("miner", seed or 0) if generator is None else generator

    def reseed(self, seed: int) -> None:
        """Start the random stream anew from ``seed``."""
        self.generator.manual_seed(seed)

    def uniform(self, *shape: int, device: torch.device) -> Tensor:
        """Random numbers in [0, 1) on ``device``; drawn where the generator lives, so bits never differ."""
        return torch.rand(shape, generator=self.generator, device=self.generator.device).to(device)


def draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """Columns drawn in proportion to their weights, row by row, by inverting the cumulative sum.

    A column of weight zero is never drawn. A row without any weight gives arbitrary columns: drop it.

    Args:
        weights: R x N, not negative; a bool mask draws evenly from what is True.
        uniform: R x K numbers in [0, 1), one for each column to draw.

    Returns:
        R x K column numbers, int64.

    Example:
        >>> draw(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([[0.0, 0.2, 0.3, 0.9]])).tolist()
        [[1, 1, 2, 2]]
    """
    sums = weights.to(torch.promote_types(weights.dtype, torch.float32)).cumsum(dim=1)
    total = sums[:, -1:]
    # Rounding may lift u * total to total itself, which would point behind the last column.
    below = torch.nextafter(total, torch.zeros_like(total))
    targets = torch.minimum(uniform.to(sums.dtype) * total, below)
    return torch.searchsorted(sums, targets, right=True).clamp_(max=weights.shape[1] - 1)
