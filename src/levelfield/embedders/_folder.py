"""Model folders: ``model.json`` and ``weights.safetensors``; written whole, checked when read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from levelfield import models
from levelfield.data import transforms
from levelfield.embedders._card import (
    CARD,
    WEIGHTS,
    Architecture,
    Data,
    ModelCard,
    Pixels,
    Preprocessing,
    Score,
    Threshold,
    read_card,
)
from levelfield.embedders._embedder import PictureEmbedder
from levelfield.errors import RunError, UsageError
from levelfield.files import lock, write_bytes, write_json
from levelfield.models import Embedder
from levelfield.rerank import Whitening


def build_network(architecture: Architecture) -> Embedder:
    """An untrained network of this shape.

    Example:
        >>> build_network(Architecture(trunk="conv4", in_channels=1, size=16)).size
        16
    """
    options: dict[str, Any] = dict(architecture.trunk_options)
    trunk = models.create_trunk(architecture.trunk, in_channels=architecture.in_channels, **options)
    return models.build(
        trunk=trunk,
        pooling=architecture.pooling,
        head=architecture.head,
        size=architecture.size,
        hidden=architecture.hidden,
        normalize=architecture.normalize,
    )


def write_model(
    folder: str | Path,
    embedders: Embedder | Sequence[Embedder],
    *,
    architecture: Architecture,
    preprocessing: Preprocessing,
    name: str = "embedder",
    method: str = "",
    whitening: Whitening | None = None,
    data: Data | None = None,
    scores: Sequence[Score] = (),
    threshold: Threshold | None = None,
    provenance: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> ModelCard:
    """Write trained embedders into ``folder``; several of one shape become one that concatenates them.

    What was written is read again and compared with the originals before it takes its final name, so that a
    wrong ``architecture`` is found now and not by whoever loads the model.

    Args:
        folder: Made if it is missing. A model that it holds is replaced.
        embedders: One, or several of the same shape, such as those of all folds.
        architecture: Their shape.
        preprocessing: What happens to a picture before.
        name: What people call the model.
        method: The method that trained it.
        whitening: What to do with the (concatenated) embeddings, fitted on development data.
        data: What it was trained on, with its licence.
        scores: How good it is.
        threshold: From :func:`calibrate`.
        provenance: How it came to be.
        notes: What users must know, such as the licences of pretrained weights.

    Returns:
        The card, as written.
    """
    several = [embedders] if isinstance(embedders, Embedder) else list(embedders)
    if not several:
        raise UsageError("a model needs at least one embedder")
    _check_preprocessing(architecture, preprocessing, several[0])
    tensors = _tensors(several, whitening)
    packed = save(tensors)
    recipe = several[0].trunk.inputs
    width = sum(each.size for each in several)
    card = ModelCard(
        name=name,
        method=method,
        architecture=architecture,
        parts=len(several),
        size=width if whitening is None else whitening.projection.shape[1],
        pixels=Pixels(mean=tuple(recipe.mean), std=tuple(recipe.std), scale=recipe.scale, bgr=recipe.bgr),
        preprocessing=preprocessing,
        whitened=whitening is not None,
        data=data,
        scores=tuple(scores),
        threshold=threshold,
        provenance=dict(provenance or {}),
        notes=tuple(notes),
        weights_sha256=hashlib.sha256(packed).hexdigest(),
    )
    card = card.model_copy(update={"identity": card.compute_identity()})
    _check_same(several, _assemble(card, tensors))
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    with lock(home, busy=f"another process is writing {home}; wait until it has finished"):
        # A kill in between leaves new weights with an old card, whose checksum then does not fit.
        write_bytes(home / WEIGHTS, packed)
        write_json(home / CARD, card.model_dump(mode="json"))
    return card


def load_embedder(folder: str | Path) -> PictureEmbedder:
    """The model in ``folder``, ready to turn pictures into unit vectors; no pickle, no code of its own.

    Raises:
        UsageError: It is no model folder, or its trunk is a plug-in that was not imported.
        RunError: The weights are not those that the card was written for.

    Example:
        >>> import tempfile
        >>> shape = Architecture(trunk="conv4", in_channels=1, size=16)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     card = write_model(
        ...         folder,
        ...         build_network(shape),
        ...         architecture=shape,
        ...         preprocessing=Preprocessing(size=(32, 32)),
        ...     )
        ...     load_embedder(folder).embed(torch.zeros(1, 32, 32, dtype=torch.uint8)).shape
        torch.Size([1, 16])
    """
    card = read_card(folder)
    file = Path(folder) / WEIGHTS
    try:
        packed = file.read_bytes()
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror or error}; export the model again") from error
    if hashlib.sha256(packed).hexdigest() != card.weights_sha256:
        raise RunError(
            f"{file} is not what {CARD} was written for (its checksum differs: damaged or tampered with); "
            "export the model again, or get it anew from who made it"
        )
    try:
        tensors = load(packed)
    except SafetensorError as error:
        raise RunError(f"{file} cannot be read ({error}); export the model again") from error
    return _assemble(card, tensors)


def _tensors(embedders: Sequence[Embedder], whitening: Whitening | None) -> dict[str, Tensor]:
    tensors = {
        f"parts.{number}.{key}": value.detach().cpu().contiguous().clone()
        for number, embedder in enumerate(embedders)
        for key, value in embedder.state_dict().items()
    }
    if whitening is not None:
        tensors["whitening.mean"] = whitening.mean.detach().cpu().contiguous()
        tensors["whitening.projection"] = whitening.projection.detach().cpu().contiguous()
    return tensors


def _assemble(card: ModelCard, tensors: Mapping[str, Tensor]) -> PictureEmbedder:
    parts = []
    for number in range(card.parts):
        prefix = f"parts.{number}."
        state = {key.removeprefix(prefix): tensors[key] for key in tensors if key.startswith(prefix)}
        part = build_network(card.architecture)
        try:
            part.load_state_dict(state)
        except RuntimeError as error:
            problem = str(error).splitlines()[-1].strip()
            raise UsageError(
                f"the weights do not fit the architecture ({card.architecture.trunk}, size "
                f"{card.architecture.size}): {problem}; name the trunk's options and the head as they were"
            ) from error
        parts.append(part)
    whitening = None
    if card.whitened:
        whitening = Whitening(tensors["whitening.mean"], tensors["whitening.projection"])
    return PictureEmbedder(card, parts, whitening)


def _check_preprocessing(architecture: Architecture, wanted: Preprocessing, embedder: Embedder) -> None:
    transforms.create(wanted.transform, train=False, **wanted.options)
    if set(wanted.scales) != {1.0} and embedder.trunk.image_size is not None:
        raise UsageError(
            f"trunk {architecture.trunk} takes pictures of one size only; leave scales at (1.0,), or give it "
            "dynamic_img_size if it has that option"
        )
    if wanted.transform == "none" and wanted.size is None:
        raise UsageError(
            'transform "none" leaves pictures at their own size; say in preprocessing.size which one the '
            "network was trained with, such as (32, 32)"
        )


def _check_same(embedders: Sequence[Embedder], copy: PictureEmbedder) -> None:
    """Refuse a copy that gives other vectors than the originals."""
    seen = copy.preprocess(torch.zeros(3, 512, 512, dtype=torch.uint8))
    noise = torch.rand(2, *seen.shape, generator=torch.Generator().manual_seed(0))
    for original, part in zip(embedders, copy.parts, strict=True):
        training = original.training
        try:
            with torch.inference_mode():
                device = next(original.parameters()).device
                wanted, got = original.eval()(noise.to(device)).cpu(), part(noise)
        finally:
            original.train(training)
        if wanted.shape != got.shape or not torch.allclose(wanted, got, atol=1e-4):
            raise UsageError(
                "a network built from this architecture gives other vectors than the one that was trained; "
                "name the pooling, the head and the trunk's options as they were"
            )
