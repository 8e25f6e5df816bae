"""Models with an image tower and a text tower from a checkpoint of open_clip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from levelfield import models
from levelfield.core.errors import UsageError
from levelfield.models import Embedder, Trunk, read_state
from levelfield.retrieval.embedders._card import Architecture, ModelCard, Preprocessing
from levelfield.retrieval.embedders._model_directory import build_network, write_model
from levelfield.retrieval.embedders.text import TextTower, open_tokenizer, text_architecture

IGNORED = ("attn_mask",)  # a buffer of open_clip that is no weight
DEFAULT_SIDE = 224


def import_two_towers(
    directory: str | Path,
    checkpoint: str | Path,
    *,
    trunk: str,
    tokenizer: str | Path,
    name: str = "",
    side: int | None = None,
    activation: str | None = None,
    heads: int | None = None,
    trunk_options: dict[str, Any] | None = None,
) -> ModelCard:
    """Write a model directory from a checkpoint of open_clip (CLIP, SigLIP), for searches with words.

    The image tower runs in timm, under whose name it is given, such as
    ``timm:vit_base_patch16_clip_quickgelu_224`` or ``timm:vit_base_patch16_siglip_224``.

    Args:
        directory: Model directory to write.
        checkpoint: safetensors or PyTorch file in the naming of open_clip: tensors ``visual.*`` and text
            tensors, with or without the prefix ``text.``.
        trunk: Name of the image tower.
        tokenizer: ``tokenizer.json`` of the model.
        name: Display name. Defaults to the name of the checkpoint.
        side: Side of the images in pixels. Defaults to that of the trunk.
        activation: Activation of the text tower: gelu (default), gelu_tanh or quick_gelu. A trunk with
            "quickgelu" in its name has quick_gelu.
        heads: Number of attention heads of the text tower. Defaults to one per 64 columns.
        trunk_options: Options of the trunk.
    """
    try:
        words = Path(tokenizer).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {tokenizer}: {error.strerror or error}; check the path") from error
    open_tokenizer(words)
    state = {
        key.removeprefix("module."): value.float() for key, value in read_state(Path(checkpoint)).items()
    }
    options = dict(trunk_options or {})
    image_tower = models.create_trunk(trunk, **options)
    given: dict[str, Any] = {} if heads is None else {"heads": heads}
    if activation or "quickgelu" in trunk:
        given["activation"] = activation or "quick_gelu"
    text = _text_tower(state, given)
    projection = _load_image_tower(image_tower, state)
    head = "none" if projection is None else "linear"
    width = image_tower.num_features if projection is None else len(projection)
    if width != text.shape.size:
        raise UsageError(
            f"the image tower returns vectors of size {width}, the text tower of size {text.shape.size}; "
            "name the trunk of this checkpoint"
        )
    shape = Architecture(trunk=trunk, trunk_options=options, head=head, size=width)
    embedder = build_network(shape, trunk=image_tower)
    if projection is not None:
        _set_projection(embedder, projection)
    side = side or image_tower.image_size or DEFAULT_SIDE
    return write_model(
        directory,
        embedder.eval(),
        architecture=shape,
        preprocessing=Preprocessing(size=(side, side)),
        name=name or Path(checkpoint).stem,
        notes=("Searches with words compare a text with images; a match threshold is only for images.",),
        text=(text, words),
    )


def _text_tower(state: dict[str, Tensor], given: dict[str, Any]) -> TextTower:
    prefix = "text." if any(key.startswith("text.") for key in state) else ""
    own = {
        key.removeprefix(prefix): value
        for key, value in state.items()
        if key.startswith(prefix) and not key.startswith(("visual.", "logit_")) and not key.endswith(IGNORED)
    }
    tower = TextTower(text_architecture(own, **given))
    try:
        tower.load_state_dict(own)
    except RuntimeError as error:
        raise UsageError(
            f"the text tower of the checkpoint has other layers ({_first_reason(error)}); "
            "only CLIP's and SigLIP's can be read"
        ) from error
    return tower.eval()


def _load_image_tower(trunk: Trunk, state: dict[str, Tensor]) -> Tensor | None:
    """Load the image tower; return its projection (D x W), if it has one."""
    network: Any = trunk.network
    try:
        from timm.models.vision_transformer import checkpoint_filter_fn

        found = checkpoint_filter_fn({k: v for k, v in state.items() if k.startswith("visual.")}, network)
        weight = found.pop("head.weight", state.get("visual.head.proj.weight"))
        found.pop("head.bias", None)
        network.load_state_dict(found)
    except (RuntimeError, KeyError, AttributeError) as error:
        raise UsageError(
            f"the image tower of the checkpoint does not fit {trunk.name} ({_first_reason(error)}); name its "
            "network"
        ) from error
    return weight


def _first_reason(error: Exception) -> str:
    """Return the first difference that PyTorch lists, below its title."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[min(1, len(lines) - 1)].strip()[:150]


def _set_projection(embedder: Embedder, weight: Tensor) -> None:
    layer: Any = embedder.head.projection
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.zero_()
