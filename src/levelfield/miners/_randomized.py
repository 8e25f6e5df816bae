"""Random sampling for miners: the same on every device, and reproducible after a resume."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.seeds import torch_generator


class RandomizedMiner:
    """Base class of miners that draw at random, from a generator of their own.

    The training loop calls :meth:`reseed` before each epoch, so that a resumed run draws the same tuples as
    an uninterrupted run.

    Args:
        generator: Random generator; give this or ``seed``. :meth:`reseed` reseeds it.
        seed: Seed of a new generator. Defaults to 0.
    """

    def __init__(self, *, generator: torch.Generator | None = None, seed: int | None = None) -> None:
        if generator is not None and seed is not None:
            raise UsageError(f"a miner takes a generator or a seed, not both; remove seed {seed}")
        self.generator = torch_generator("miner", seed or 0) if generator is None else generator

    def reseed(self, seed: int) -> None:
        """Reseed the random generator."""
        self.generator.manual_seed(seed)

    def uniform(self, *shape: int, device: torch.device) -> Tensor:
        """Return random numbers in [0, 1) on ``device``; they are drawn on the device of the generator."""
        return torch.rand(shape, generator=self.generator, device=self.generator.device).to(device)


def sample_columns(weights: Tensor, uniform: Tensor) -> Tensor:
    """Return columns of each row, drawn with replacement and with probabilities proportional to ``weights``.

    Columns with weight zero are never drawn. The result for a row with all weights zero is arbitrary.

    Args:
        weights: R x N, not negative; a bool mask draws uniformly from its True columns.
        uniform: R x K random numbers in [0, 1), one per column to draw.

    Returns:
        Column numbers, R x K, int64.

    Example:
        >>> sample_columns(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([[0.0, 0.2, 0.3, 0.9]])).tolist()
        [[1, 1, 2, 2]]
    """
    sums = weights.to(torch.promote_types(weights.dtype, torch.float32)).cumsum(dim=1)
    total = sums[:, -1:]
    # Rounding may raise u * total to total, which would select a column past the end.
    below = torch.nextafter(total, torch.zeros_like(total))
    targets = torch.minimum(uniform.to(sums.dtype) * total, below)
    return torch.searchsorted(sums, targets, right=True).clamp_(max=weights.shape[1] - 1)
