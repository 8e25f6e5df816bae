"""Model directories: ``model.json`` and ``weights.safetensors``, written atomically and checked when read."""

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
from levelfield.core.errors import RunError, UsageError
from levelfield.core.files import lock, write_bytes, write_json
from levelfield.core.trust import check_trusted
from levelfield.data import transforms
from levelfield.models import Embedder
from levelfield.retrieval.embedders._bounds import bounded_building
from levelfield.retrieval.embedders._card import (
    CARD,
    WEIGHTS,
    Architecture,
    MatchThreshold,
    ModelCard,
    ModelScore,
    PixelNormalization,
    Preprocessing,
    TrainingData,
    read_model_card,
)
from levelfield.retrieval.embedders._embedder import ImageEmbedder
from levelfield.retrieval.rerank import Whitening


def build_network(architecture: Architecture) -> Embedder:
    """Return an untrained network of this architecture.

    Example:
        >>> build_network(Architecture(trunk="conv4", in_channels=1, size=16)).size
        16
    """
    options: dict[str, Any] = dict(architecture.trunk_options)
    trunk = models.create_trunk(architecture.trunk, in_channels=architecture.in_channels, **options)
    return models.create_embedder(
        trunk=trunk,
        pooling=architecture.pooling,
        head=architecture.head,
        size=architecture.size,
        hidden=architecture.hidden,
        normalize=architecture.normalize,
    )


def write_model(
    directory: str | Path,
    embedders: Embedder | Sequence[Embedder],
    *,
    architecture: Architecture,
    preprocessing: Preprocessing,
    name: str = "embedder",
    method: str = "",
    whitening: Whitening | None = None,
    data: TrainingData | None = None,
    scores: Sequence[ModelScore] = (),
    threshold: MatchThreshold | None = None,
    provenance: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> ModelCard:
    """Write trained embedders to a model directory.

    Several embedders become one model that concatenates their embeddings. The model is rebuilt from
    ``architecture`` and compared with the originals before anything is written, so that a wrong
    ``architecture`` raises here and not when the model is loaded.

    Args:
        directory: Created if missing. A model in it is replaced.
        embedders: One embedder, or several of the same architecture, such as those of all folds.
        architecture: Architecture of the embedders.
        preprocessing: Preprocessing before the network.
        name: Display name of the model.
        method: Method that trained it.
        whitening: Whitening of the (concatenated) embeddings, fitted on development data.
        data: Training data, with its license.
        scores: Test scores.
        threshold: Match threshold from :func:`calibrate_threshold`.
        provenance: Versions, commit and time.
        notes: Remarks for users, such as the licenses of pretrained weights.

    Returns:
        The model card, as written.
    """
    several = [embedders] if isinstance(embedders, Embedder) else list(embedders)
    if not several:
        raise UsageError("a model needs at least one embedder; pass one")
    _check_preprocessing(architecture, preprocessing, several[0])
    tensors = _tensors(several, whitening)
    packed = save(tensors)
    inputs = several[0].trunk.inputs
    width = sum(each.size for each in several)
    card = ModelCard(
        name=name,
        method=method,
        architecture=architecture,
        parts=len(several),
        size=width if whitening is None else whitening.projection.shape[1],
        pixels=PixelNormalization(
            mean=tuple(inputs.mean), std=tuple(inputs.std), scale=inputs.scale, bgr=inputs.bgr
        ),
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
    _check_same_vectors(several, _build_embedder(card, tensors))
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    with lock(target, busy=f"another process is writing {target}; wait until it has finished"):
        # A kill between the two leaves new weights with an old card; the checksum then reports it.
        write_bytes(target / WEIGHTS, packed)
        write_json(target / CARD, card.model_dump(mode="json"))
    return card


def load_embedder(directory: str | Path, *, trust: bool = False) -> ImageEmbedder:
    """Return the embedder in a model directory.

    Loading uses no pickle and executes no code that the directory names, unless you trust it: a card may name
    built-in and ``timm:`` trunks. Others (``hub:``, ``hf-hub:``, plug-ins) need ``trust=True``.

    Args:
        directory: Model directory.
        trust: Run the code of any trunk that the model card names.

    Raises:
        UsageError: This is not a model directory, its trunk needs trust, or is an unknown plug-in.
        RunError: The weights do not match the model card.

    Example:
        >>> import tempfile
        >>> shape = Architecture(trunk="conv4", in_channels=1, size=16)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     card = write_model(
        ...         directory,
        ...         build_network(shape),
        ...         architecture=shape,
        ...         preprocessing=Preprocessing(size=(32, 32)),
        ...     )
        ...     load_embedder(directory).embed(torch.zeros(1, 32, 32, dtype=torch.uint8)).shape
        torch.Size([1, 16])
    """
    card = read_model_card(directory)
    check_trusted(models.registry, card.architecture.trunk, origin=str(Path(directory) / CARD), trust=trust)
    check_trusted(
        transforms.registry, card.preprocessing.transform, origin=str(Path(directory) / CARD), trust=trust
    )
    file = Path(directory) / WEIGHTS
    try:
        packed = file.read_bytes()
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror or error}; export the model again") from error
    if hashlib.sha256(packed).hexdigest() != card.weights_sha256:
        raise RunError(
            f"{file} does not match {CARD} (its checksum differs: damaged or tampered with); "
            "export the model again, or download it again"
        )
    try:
        tensors = load(packed)
    except SafetensorError as error:
        raise RunError(f"{file} cannot be read ({error}); export the model again") from error
    return _build_embedder(card, tensors)


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


def _build_embedder(card: ModelCard, tensors: Mapping[str, Tensor]) -> ImageEmbedder:
    parts = []
    for number in range(card.parts):
        prefix = f"parts.{number}."
        state = {key.removeprefix(prefix): tensors[key] for key in tensors if key.startswith(prefix)}
        if not state:
            raise UsageError(f"the weights have no tensors of part {number}; export the model again")
        with bounded_building(state):
            part = build_network(card.architecture)
        try:
            part.load_state_dict(state)
        except RuntimeError as error:
            problem = str(error).splitlines()[-1].strip()
            raise UsageError(
                f"the weights do not fit the architecture ({card.architecture.trunk}, size "
                f"{card.architecture.size}): {problem}; pass the trunk's options and the head of the training"
            ) from error
        parts.append(part)
    whitening = _whitening(tensors, sum(part.size for part in parts)) if card.whitened else None
    size = sum(part.size for part in parts) if whitening is None else whitening.projection.shape[1]
    if size != card.size:
        raise UsageError(
            f"the model card says vectors of size {card.size}, the networks return {size}; export it again"
        )
    with bounded_building(tensors):
        return ImageEmbedder(card, parts, whitening)


def _whitening(tensors: Mapping[str, Tensor], width: int) -> Whitening:
    mean, projection = tensors.get("whitening.mean"), tensors.get("whitening.projection")
    if mean is None or projection is None:
        raise UsageError(
            "the weights have no whitening, which the model card announces; export the model again"
        )
    if mean.shape not in ((width,), (1, width)) or projection.ndim != 2 or len(projection) != width:
        raise UsageError("the whitening does not fit the size of the networks; export the model again")
    return Whitening(mean, projection)


def _check_preprocessing(
    architecture: Architecture, preprocessing: Preprocessing, embedder: Embedder
) -> None:
    transforms.create(preprocessing.transform, train=False, **preprocessing.options)
    if set(preprocessing.scales) != {1.0} and embedder.trunk.image_size is not None:
        raise UsageError(
            f"trunk {architecture.trunk} takes images of one size only; leave scales at (1.0,), or set its "
            "option dynamic_img_size if it has one"
        )
    if preprocessing.transform == "none" and preprocessing.size is None:
        raise UsageError(
            'transform "none" does not resize images; set preprocessing.size to the size that the network '
            "was trained with, such as (32, 32)"
        )


def _check_same_vectors(embedders: Sequence[Embedder], copy: ImageEmbedder) -> None:
    """Raise if the copy returns other vectors than the originals."""
    shown = copy.preprocess(torch.zeros(3, 512, 512, dtype=torch.uint8))
    noise = torch.rand(2, *shown.shape, generator=torch.Generator().manual_seed(0))
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
                "a network built from this architecture returns other vectors than the trained one; "
                "pass the pooling, the head and the trunk's options of the training"
            )
