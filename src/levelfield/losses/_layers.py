"""Small networks of losses and regularizers, initialized from a given generator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn


def seeded_linear(inputs: int, outputs: int, *, generator: torch.Generator) -> nn.Linear:
    """Return a linear layer initialized as in PyTorch, uniform in +-1/sqrt(inputs), but from ``generator``.

    Example:
        >>> one, same = (seeded_linear(3, 2, generator=torch.Generator().manual_seed(0)) for _ in range(2))
        >>> torch.equal(one.weight, same.weight)
        True
    """
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")  # draws nothing
    bound = 1 / math.sqrt(inputs)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer


def mlp(widths: Sequence[int], *, generator: torch.Generator) -> nn.Sequential:
    """Return linear layers from each of the ``widths`` to the next, with ReLU between them.

    Example:
        >>> mlp([3, 8, 2], generator=torch.Generator())(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
    """
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.ReLU()] if layers else []
        layers.append(seeded_linear(inputs, outputs, generator=generator))
    return nn.Sequential(*layers)
