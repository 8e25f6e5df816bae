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
from levelfield.retrieval.embedders._checks import check_preprocessing, check_same_vectors
from levelfield.retrieval.embedders._embedder import ImageEmbedder
from levelfield.retrieval.embedders.text import TextEncoder, TextTower
from levelfield.retrieval.rerank import Whitening

SHARED = "shared."  # prefix of tensors that are equal in all parts
TEXT = "text."  # prefix of the tensors of a text tower
TOKENIZER = "tokenizer"  # bytes of its tokenizer.json
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
    text: tuple[TextTower, bytes] | None = None,
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
        text: Text tower and the content of its ``tokenizer.json``. Its vectors must be in the space of the
            images, so it fits one embedder without whitening.

    Returns:
        The model card, as written.
    """
    several = [embedders] if isinstance(embedders, Embedder) else list(embedders)
    if not several:
        raise UsageError("a model needs at least one embedder; pass one")
    check_preprocessing(architecture, preprocessing, several[0])
    tensors = _tensors(several, whitening)
    if text is not None:
        tensors |= {f"{TEXT}{key}": value.detach().cpu() for key, value in text[0].state_dict().items()}
        tensors[TOKENIZER] = torch.frombuffer(bytearray(text[1]), dtype=torch.uint8)
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
        text=None if text is None else text[0].shape,
        data=data,
        scores=tuple(scores),
        threshold=threshold,
        provenance=dict(provenance or {}),
        notes=tuple(notes),
        weights_sha256=hashlib.sha256(packed).hexdigest(),
    )
    card = card.model_copy(update={"identity": card.compute_identity()})
    check_same_vectors(several, _build_embedder(card, tensors))
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
    text = None if card.text is None else _text_encoder(card, tensors)
    with bounded_building(tensors):
        return ImageEmbedder(card, parts, whitening, text)


def _text_encoder(card: ModelCard, tensors: Mapping[str, Tensor]) -> TextEncoder:
    assert card.text is not None
    if card.text.size != card.size or card.parts > 1 or card.whitened or TOKENIZER not in tensors:
        raise UsageError(
            f"the text tower returns vectors of size {card.text.size} for images of size {card.size}, or has "
            "no tokenizer; it fits one network of the same size without whitening"
        )
    state = {key.removeprefix(TEXT): value for key, value in tensors.items() if key.startswith(TEXT)}
    with bounded_building(state):
        tower = TextTower(card.text)
    try:
        tower.load_state_dict(state)
    except RuntimeError as error:
        raise UsageError(
            f"the weights do not fit the text tower: {str(error).splitlines()[-1].strip()}; export it again"
        ) from error
    return TextEncoder(tower, tensors[TOKENIZER].numpy().tobytes())


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
