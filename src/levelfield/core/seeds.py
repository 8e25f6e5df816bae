"""Named random streams: local generators whose seeds are derived from names.

A stream depends only on its name, such as ("run", 3, "batches", epoch), not on earlier draws. So a resumed
run needs no saved generator state, and a new stream does not change the others.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch


def seed_for(*parts: str | int) -> int:
    """Return a 63-bit seed that depends on every part and on their order.

    Example:
        >>> seed_for("batches", 0) == seed_for("batches", 0), seed_for("batches", 0) == seed_for("batches", 1)
        (True, False)
    """
    text = json.dumps(parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def run_seed(seed: int, stage: str, number: int, fold: int, *, repeat: int = 0) -> int:
    """Return the seed of a run; it does not depend on the method, so that all methods share randomness.

    Args:
        seed: Seed of the experiment.
        stage: "search" or "confirm".
        number: Number of the trial or rerun.
        fold: Number of the fold.
        repeat: Number of the repeat, from 0. The seeds of repeat 0 equal those of an experiment without
            repeats.

    Example:
        >>> run_seed(0, "search", 3, 1) == run_seed(0, "confirm", 3, 1)
        False
    """
    return seed_for(seed, stage, number, fold, *(("repeat", repeat) if repeat else ()))


def torch_generator(*parts: str | int) -> torch.Generator:
    """Return a CPU generator for the stream named by ``parts``."""
    import torch

    return torch.Generator().manual_seed(seed_for(*parts))


def numpy_generator(*parts: str | int) -> np.random.Generator:
    """Return a NumPy generator for the stream named by ``parts``."""
    import numpy as np

    return np.random.default_rng(seed_for(*parts))


def random_derangement(count: int, *, generator: torch.Generator) -> torch.Tensor:
    """Return a random permutation of ``count`` items without fixed points: one cycle through all items.

    Example:
        >>> import torch
        >>> random_derangement(2, generator=torch.Generator()).tolist()
        [1, 0]
    """
    import torch

    order = torch.randperm(count, generator=generator)
    partner = torch.empty_like(order)
    partner[order] = order.roll(1)
    return partner


def sample_beta(first: float, second: float, *, generator: torch.Generator) -> float:
    """Return a random number from Beta(first, second); PyTorch cannot sample it from a local generator.

    Example:
        >>> import torch
        >>> 0 < sample_beta(2.0, 2.0, generator=torch.Generator()) < 1
        True
    """
    import numpy as np
    import torch

    seed = int(torch.randint(2**62, (1,), generator=generator))
    return float(np.random.default_rng(seed).beta(first, second))
