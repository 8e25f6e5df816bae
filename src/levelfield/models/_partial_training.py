"""Parameter-efficient fine-tuning of a trunk: LoRA, biases, or norm layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.seeds import torch_generator
from levelfield.models._trunk import Trunk


class LowRank(nn.Module):
    """Weight plus a trained low-rank product of two matrices (LoRA, Hu et al. 2022).

    The second matrix starts at zero, so that the layer is unchanged at first.
    """

    def __init__(self, weight: Tensor, *, rank: int, alpha: float, generator: torch.Generator) -> None:
        super().__init__()
        rows, columns = weight.shape
        bound = 1 / math.sqrt(columns)
        self.down = nn.Parameter(torch.empty(rank, columns).uniform_(-bound, bound, generator=generator))
        self.up = nn.Parameter(torch.zeros(rows, rank))
        self.scale = alpha / rank

    def forward(self, weight: Tensor) -> Tensor:
        """Return the effective weight (rows x columns) of the layer."""
        return torch.addmm(weight, self.up, self.down, alpha=self.scale)


def add_lora(
    trunk: Trunk, *, rank: int = 8, alpha: float = 8.0, targets: Sequence[str] = (), seed: int = 0
) -> None:
    """Freeze ``trunk`` and add trainable low-rank matrices to its linear layers.

    Args:
        trunk: Trunk, changed in place.
        rank: Rank of the added matrices.
        alpha: The low-rank product is multiplied by alpha / rank.
        targets: Last parts of layer names, such as "qkv"; empty for every linear layer.
        seed: Seed of the initial values.

    Example:
        >>> from levelfield import models
        >>> trunk = models.create_trunk("mlp", width=8)
        >>> add_lora(trunk, rank=2)
        >>> sorted(name.rsplit(".", 1)[-1] for name, p in trunk.named_parameters() if p.requires_grad)
        ['down', 'down', 'up', 'up']
    """
    linear = {name: layer for name, layer in trunk.network.named_modules() if isinstance(layer, nn.Linear)}
    ends = {name.rsplit(".", 1)[-1] for name in linear}
    for target in targets:
        if target not in ends:
            hint = did_you_mean(target, ends)
            raise UsageError(
                f'trunk {trunk.name} has no linear layer "{target}" for trunk.lora.targets{hint}'
            )
    if not linear:
        raise UsageError(
            f"trunk {trunk.name} has no linear layers for mode lora; use mode norm, tail or finetune"
        )
    trunk.requires_grad_(False)
    for name, layer in linear.items():
        if targets and name.rsplit(".", 1)[-1] not in targets:
            continue
        if rank > min(layer.weight.shape):
            raise UsageError(
                f"trunk.lora.rank {rank} exceeds that of layer {name} ({min(layer.weight.shape)}); lower it"
            )
        generator = torch_generator("lora", seed, name)
        addition = LowRank(layer.weight, rank=rank, alpha=alpha, generator=generator).to(layer.weight.device)
        parametrize.register_parametrization(layer, "weight", addition)


def merged_state(network: nn.Module) -> dict[str, Tensor]:
    """Return the state dict of ``network`` with the LoRA matrices merged into the weights.

    The network is not changed. Parametrizations cannot be removed from a deep copy: it shares the
    parametrized classes that torch created, so they would be removed from both.
    """
    state: dict[str, Tensor] = dict(network.state_dict())
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear) and parametrize.is_parametrized(layer, "weight"):
            own = f"{name}.parametrizations."
            state = {key: value for key, value in state.items() if not key.startswith(own)}
            state[f"{name}.weight"] = layer.weight.detach()
    return state


def train_biases(trunk: Trunk) -> None:
    """Freeze ``trunk`` except for its biases (BitFit, Ben Zaken et al. 2022)."""
    _train_only(trunk, "bitfit", [p for name, p in trunk.named_parameters() if name.endswith("bias")])


def train_norms(trunk: Trunk) -> None:
    """Freeze ``trunk`` except for the scales and shifts of its norm layers."""
    norms = [module for module in trunk.modules() if "norm" in type(module).__name__.lower()]
    _train_only(trunk, "norm", [p for module in norms for p in module.parameters(recurse=False)])


def _train_only(trunk: Trunk, mode: str, parameters: Sequence[nn.Parameter]) -> None:
    if not parameters:
        raise UsageError(
            f"trunk {trunk.name} has no parameters to train in mode {mode}; use mode finetune or frozen"
        )
    trunk.requires_grad_(False)
    for parameter in parameters:
        parameter.requires_grad_(True)
