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
from levelfield.core.files import check_is_file, lock, write_bytes, write_json
from levelfield.core.trust import check_trusted
from levelfield.data import transforms
from levelfield.models import Embedder, Trunk
from levelfield.retrieval.embedders._bounds import SPARE_ELEMENTS, bounded_building
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

SHARED = "shared."  # prefix of tensors that are equal in all parts
MAX_BYTES = 16 << 30  # of the weights; those of the largest trunks of timm take 8 GB
MAX_COPIES = 32  # networks that may differ in a small share of their weights


def build_network(architecture: Architecture, *, trunk: Trunk | None = None) -> Embedder:
    """Return an untrained network of this architecture, with its own trunk or on top of ``trunk``.

    Example:
        >>> build_network(Architecture(trunk="conv4", in_channels=1, size=16)).size
        16
    """
    options: dict[str, Any] = dict(architecture.trunk_options)
    if trunk is None:
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
        check_is_file(file, max_bytes=MAX_BYTES)
        packed = file.read_bytes()
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", "") or error or "it does not fit into the memory"
        raise RunError(f"cannot read {file}: {reason}; export the model again") from error
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
    """Return the tensors to store; those that are equal in all parts are stored once."""
    states = [
        {key: value.detach().cpu().contiguous().clone() for key, value in embedder.state_dict().items()}
        for embedder in embedders
    ]
    shared = {key for key in states[0] if len(states) > 1 and all(_same(states[0], s, key) for s in states)}
    tensors = {f"{SHARED}{key}": states[0][key] for key in states[0] if key in shared}
    for number, state in enumerate(states):
        tensors |= {f"parts.{number}.{key}": value for key, value in state.items() if key not in shared}
    if whitening is not None:
        tensors["whitening.mean"] = whitening.mean.detach().cpu().contiguous()
        tensors["whitening.projection"] = whitening.projection.detach().cpu().contiguous()
    return tensors


def _same(one: Mapping[str, Tensor], other: Mapping[str, Tensor], key: str) -> bool:
    """Return True if both hold the same bits."""
    a, b = one[key], other.get(key)
    if b is None or a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)))


def _build_embedder(card: ModelCard, tensors: Mapping[str, Tensor]) -> ImageEmbedder:
    shared = {key.removeprefix(SHARED): tensors[key] for key in tensors if key.startswith(SHARED)}
    parts: list[Embedder] = []
    states: list[dict[str, Tensor]] = []
    for number in range(card.parts):
        prefix = f"parts.{number}."
        own = {key.removeprefix(prefix): tensors[key] for key in tensors if key.startswith(prefix)}
        if not own and not shared:
            raise UsageError(f"the weights have no tensors of part {number}; export the model again")
        state = shared | own
        twin = next((p for p, s in zip(parts, states, strict=True) if _same_trunk(s, state)), None)
        with bounded_building(state):
            part = build_network(card.architecture, trunk=None if twin is None else twin.trunk)
        if twin is not None:
            part.pooling = twin.pooling
        try:
            part.load_state_dict(state)
        except RuntimeError as error:
            problem = str(error).splitlines()[-1].strip()
            raise UsageError(
                f"the weights do not fit the architecture ({card.architecture.trunk}, size "
                f"{card.architecture.size}): {problem}; pass the trunk's options and the head of the training"
            ) from error
        parts.append(part)
        states.append(state)
        _check_total(parts, tensors)
    whitening = _whitening(tensors, sum(part.size for part in parts)) if card.whitened else None
    size = sum(part.size for part in parts) if whitening is None else whitening.projection.shape[1]
    if size != card.size:
        raise UsageError(
            f"the model card says vectors of size {card.size}, the networks return {size}; export it again"
        )
    with bounded_building(tensors):
        return ImageEmbedder(card, parts, whitening)


def _same_trunk(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Return True if the trunk and the pooling have the same bits; then they need to run only once."""
    keys = {key for state in (one, other) for key in state if key.startswith(("trunk.", "pooling."))}
    return all(key in one and _same(one, other, key) for key in keys)


def _check_total(parts: Sequence[Embedder], tensors: Mapping[str, Tensor]) -> None:
    """Raise if shared tensors were copied into far more networks than the file would hold without sharing."""
    trunks = {id(part.trunk): part for part in parts}.values()
    built = sum(value.numel() for part in trunks for value in part.state_dict().values())
    stored = sum(tensor.numel() for tensor in tensors.values())
    if built > MAX_COPIES * stored + SPARE_ELEMENTS:
        raise UsageError(
            f"{len(parts)} networks need more than {MAX_COPIES} times the memory of the weights; the card "
            "is wrong, export the model again, or download it again"
        )


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
