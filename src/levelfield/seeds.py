"""Every random stream is a local generator whose seed is derived from names.

Because a stream is a function of its name ("run", 3, "batches", epoch), and not of what was drawn
before it, a resumed run needs no saved generator state, and adding one stream disturbs no other.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch


def seed_for(*parts: str | int) -> int:
    """A 63-bit seed that depends on every part and on their order.

    Example:
        >>> seed_for("batches", 0) == seed_for("batches", 0), seed_for("batches", 0) == seed_for("batches", 1)
        (True, False)
    """
    text = json.dumps(parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def run_seed(seed: int, stage: str, number: int, fold: int, *, repeat: int = 0) -> int:
    """The seed of a run: the same for every method, so that luck is shared too.

    Args:
        seed: Of the experiment.
        stage: "search" or "confirm".
        number: Of the trial or rerun.
        fold: Of the split.
        repeat: Which of several searches; the first has the streams of a single one.

    Example:
        >>> run_seed(0, "search", 3, 1) == run_seed(0, "confirm", 3, 1)
        False
    """
    return seed_for(seed, stage, number, fold, *(("repeat", repeat) if repeat else ()))


def torch_generator(*parts: str | int) -> torch.Generator:
    """A CPU generator for the stream named by ``parts``."""
    import torch

    return torch.Generator().manual_seed(seed_for(*parts))


def numpy_generator(*parts: str | int) -> np.random.Generator:
    """A NumPy generator for the stream named by ``parts``."""
    import numpy as np

    return np.random.default_rng(seed_for(*parts))


def circle(count: int, *, generator: torch.Generator) -> torch.Tensor:
    """A partner for each of ``count`` samples: the next one in a random circle, so that nobody is its own.

    Example:
        >>> import torch
        >>> circle(2, generator=torch.Generator()).tolist()
        [1, 0]
    """
    import torch

    order = torch.randperm(count, generator=generator)
    partner = torch.empty_like(order)
    partner[order] = order.roll(1)
    return partner


def beta(first: float, second: float, *, generator: torch.Generator) -> float:
    """A number from Beta(first, second); PyTorch draws no beta variates from a local generator.

    Example:
        >>> import torch
        >>> 0 < beta(2.0, 2.0, generator=torch.Generator()) < 1
        True
    """
    import numpy as np
    import torch

    seed = int(torch.randint(2**62, (1,), generator=generator))
    return float(np.random.default_rng(seed).beta(first, second))
