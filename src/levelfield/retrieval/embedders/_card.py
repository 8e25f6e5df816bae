"""``model.json``: the model card of a trained embedder, with everything but the weights."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from levelfield.core.errors import RunError, UsageError
from levelfield.core.files import read_json

FORMAT: Final = "levelfield-embedder"
VERSION: Final = 1
CARD, WEIGHTS = "model.json", "weights.safetensors"
# Bounds of every field: a card may come from a stranger, and a number in it decides how much is computed.
MAX_SIDE = 4096  # pixels of an image's side before the network
MAX_BYTES = 10_000_000  # of the file
Word = Annotated[str, Field(max_length=300)]
Text = Annotated[str, Field(max_length=20_000)]
Number = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]
Integer = Annotated[int, Field(ge=-MAX_SIDE * 16, le=MAX_SIDE * 16)]
Width = Annotated[int, Field(ge=1, le=65_536)]
Count = Annotated[int, Field(ge=0, le=10**12)]
Share = Annotated[float, Field(ge=0, le=1)]
Scalar = bool | Integer | Number | Word | None
Options = Annotated[dict[Word, Scalar], Field(max_length=50)]
Channels = Annotated[tuple[Number, ...], Field(min_length=1, max_length=64)]
Scale = Annotated[float, Field(ge=0.05, le=8)]
Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]


class CardSection(BaseModel):
    """Part of the model card. Frozen; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Architecture(CardSection):
    """Architecture of a network, sufficient to build it without its weights.

    Attributes:
        trunk: Registered trunk name, or ``timm:NAME``.
        trunk_options: Options of the trunk, such as ``width``.
        in_channels: Number of image channels: 3 for color, 1 for gray.
        pooling: avg, max, avg+max or gem.
        head: linear, mlp or none.
        size: Embedding size D.
        hidden: Width of an MLP head's hidden layer. None: the width of the features.
        normalize: If true, the head returns unit vectors.
    """

    trunk: Word
    trunk_options: Options = {}
    in_channels: Annotated[int, Field(ge=1, le=64)] = 3
    pooling: Word = "avg"
    head: Word = "linear"
    size: Width = 128
    hidden: Width | None = None
    normalize: bool = True


class PixelNormalization(CardSection):
    """Pixel normalization of the trunk: ``(pixels * scale - mean) / std``, pixels in 0..1, RGB or BGR.

    The network normalizes by itself. The values are recorded for use of the weights outside levelfield.
    """

    mean: Channels
    std: Channels
    scale: Number
    bgr: bool


class Preprocessing(CardSection):
    """Preprocessing of a decoded image before the network.

    Attributes:
        transform: Name of a levelfield transform; its evaluation version is used.
        options: Options of the transform.
        size: Height and width to which images are resized first. None: the transform decides.
        scales: Scales at which each image is embedded; the embeddings are summed.
        flip: If true, each image is also embedded mirrored.
    """

    transform: Word = "none"
    options: Options = {}
    size: tuple[Side, Side] | None = None
    scales: Annotated[tuple[Scale, ...], Field(min_length=1, max_length=16)] = (1.0,)
    flip: bool = False


class ModelScore(CardSection):
    """Metric value with its 95% interval, if known, and the data that it was measured on."""

    metric: Word
    value: Number
    low: Number | None = None
    high: Number | None = None
    measured_on: Text = "test"


class TrainingData(CardSection):
    """Training data of a model, with its license."""

    name: Text
    fingerprint: Text = ""
    license: Text = ""
    source: Text = ""
    citation: Text = ""


class MatchThreshold(CardSection):
    """Similarity threshold below which a neighbor is not a match; see :func:`calibrate_threshold`.

    Attributes:
        similarity: Minimum cosine similarity of a match.
        false_accept_rate: Maximum share of queries without a match that are accepted nevertheless.
        true_accept_rate: Share of the calibration queries with a match that reached the threshold.
        queries: Number of calibration queries.
        gallery: Number of images that the calibration queries searched. False accepts are more frequent in a
            larger index.
        data: Name of the calibration data.
    """

    similarity: float = Field(ge=-1, le=1)
    false_accept_rate: float = Field(gt=0, lt=1)
    true_accept_rate: Share
    queries: Count
    gallery: Count
    data: Text = "validation"


class TextArchitecture(CardSection):
    """Architecture of a text tower, with the form of its texts.

    Attributes:
        vocabulary: Number of tokens.
        context: Number of tokens of a text; longer texts are cut.
        width: Width of the transformer.
        layers: Number of blocks.
        heads: Number of attention heads.
        hidden: Width of the MLPs.
        size: Size D of the vectors.
        causal: If true, a token sees only earlier ones.
        pooling: "end" reads the token that ends the text (CLIP), "last" the last place (SigLIP).
        activation: gelu, gelu_tanh or quick_gelu.
        eps: Constant of the layer norms.
        projection_bias: If true, the projection has a bias.
        punctuation: If false, punctuation is removed from texts.
        padding: Token after the end of a text.
    """

    vocabulary: Annotated[int, Field(ge=2, le=1_000_000)]
    context: Annotated[int, Field(ge=2, le=4096)]
    width: Width
    layers: Annotated[int, Field(ge=1, le=100)]
    heads: Annotated[int, Field(ge=1, le=256)]
    hidden: Width
    size: Width
    causal: bool = True
    pooling: Literal["end", "last"] = "end"
    activation: Literal["gelu", "gelu_tanh", "quick_gelu"] = "gelu"
    eps: Annotated[float, Field(gt=0, le=1)] = 1e-5
    projection_bias: bool = False
    punctuation: bool = True
    padding: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class ModelCard(CardSection):
    """Content of ``model.json``.

    Attributes:
        name: Display name of the model.
        method: Method that trained it; empty for a network from outside levelfield.
        architecture: Architecture of each part. The embeddings of several parts are concatenated.
        parts: Number of networks, such as one per fold.
        size: Size of the output vectors.
        pixels: Pixel normalization of the trunk.
        preprocessing: Preprocessing before the network.
        whitened: If true, the output is whitened; the whitening tensors are among the weights.
        text: Text tower, whose vectors are in the space of the images; None if the model has none.
        data: Training data.
        scores: Test scores.
        threshold: Match threshold; None if it was not calibrated.
        provenance: Versions, commit and time of the export.
        notes: Remarks for users, one sentence each, such as the licenses of pretrained weights.
        weights_sha256: SHA-256 checksum of ``weights.safetensors``.
        identity: Digest of everything that determines the vector of an image: weights, architecture and
            preprocessing. An index stores it and rejects vectors of another model.
    """

    format: Literal["levelfield-embedder"] = FORMAT
    version: Literal[1] = VERSION
    name: Text
    method: Text = ""
    architecture: Architecture
    parts: int = Field(default=1, ge=1, le=1000)
    size: int = Field(ge=1, le=10_000_000)
    pixels: PixelNormalization
    preprocessing: Preprocessing = Preprocessing()
    whitened: bool = False
    text: TextArchitecture | None = None
    data: TrainingData | None = None
    scores: Annotated[tuple[ModelScore, ...], Field(max_length=1000)] = ()
    threshold: MatchThreshold | None = None
    provenance: Annotated[dict[Word, Text], Field(max_length=1000)] = {}
    notes: Annotated[tuple[Text, ...], Field(max_length=1000)] = ()
    weights_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    identity: Word = ""

    def compute_identity(self) -> str:
        """Return the value that ``identity`` must have."""
        decisive = {"version", "architecture", "parts", "size", "preprocessing", "whitened", "weights_sha256"}
        if self.text is not None:  # a model without text keeps the identity that it had before there were any
            decisive.add("text")
        text = json.dumps(self.model_dump(mode="json", include=decisive), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def read_model_card(directory: str | Path) -> ModelCard:
    """Return the model card in ``directory``.

    Raises:
        UsageError: There is no model card, or its format or version is unknown.
        RunError: The card is damaged or was changed after it was written.

    Example:
        >>> read_model_card("nowhere")
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: nowhere is not a model directory (it has no model.json); ...
    """
    file = Path(directory) / CARD
    if not file.is_file():
        raise UsageError(
            f"{directory} is not a model directory (it has no {CARD}); create one with levelfield export"
        )
    content = read_json(file, max_bytes=MAX_BYTES)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UsageError(f"{file} is not a levelfield model card; create one with levelfield export")
    if content.get("version") != VERSION:
        raise UsageError(
            f"{file} has version {content.get('version')}, this levelfield reads version {VERSION}; "
            "use the levelfield version that wrote it, or export the model again"
        )
    try:
        card = ModelCard.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(f"{file} is damaged ({where}: {first['msg']}); export the model again") from error
    if card.identity != card.compute_identity():
        raise RunError(
            f"{file} was changed after it was written (its identity does not match its architecture, "
            "preprocessing and weights); export the model again, or download it again"
        )
    return card
