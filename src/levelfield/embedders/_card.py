"""``model.json``: everything about a trained embedder but its numbers; a model card that can be published."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from levelfield.errors import RunError, UsageError
from levelfield.files import read_json

FORMAT: Final = "levelfield-embedder"
VERSION: Final = 1
CARD, WEIGHTS = "model.json", "weights.safetensors"
Scalar = bool | int | float | str | None


class Section(BaseModel):
    """A part of the card: frozen, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Architecture(Section):
    """What network it is: enough to build it anew, without its weights.

    Attributes:
        trunk: A registered name or ``timm:NAME``.
        trunk_options: What the trunk itself takes, such as ``width``.
        in_channels: Of the pictures: 3 for colour, 1 for grey.
        pooling: avg, max, avg+max or gem.
        head: linear, mlp or none.
        size: D, the width of the embeddings.
        hidden: The width of an MLP head's hidden layer; None for the width of the features.
        normalize: Whether the head gives unit vectors.
    """

    trunk: str
    trunk_options: dict[str, Scalar] = {}
    in_channels: int = 3
    pooling: str = "avg"
    head: str = "linear"
    size: int = 128
    hidden: int | None = None
    normalize: bool = True


class Pixels(Section):
    """How the trunk reads pixels: ``(pixels * scale - mean) / std``, pixels in 0..1, RGB or BGR.

    The network does this by itself; it stands here for those who use the weights elsewhere.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float
    bgr: bool


class Preprocessing(Section):
    """From a decoded picture to what the network takes.

    Attributes:
        transform: The name of a levelfield transform; its evaluation twin is used.
        options: The transform's own.
        size: Height and width that pictures are brought to first; None leaves that to the transform.
        scales: Each picture is embedded at these scales, and what comes out is added up.
        flip: Whether each is also embedded mirrored.
    """

    transform: str = "none"
    options: dict[str, Scalar] = {}
    size: tuple[int, int] | None = None
    scales: tuple[float, ...] = (1.0,)
    flip: bool = False


class Score(Section):
    """A measure with its 95% interval, where there is one, and on what it was measured."""

    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    measured_on: str = "test"


class Data(Section):
    """What it was trained on, and under which terms."""

    name: str
    fingerprint: str = ""
    licence: str = ""
    source: str = ""
    citation: str = ""


class Threshold(Section):
    """Below this similarity a neighbour is "nothing like it here"; see :func:`calibrate`.

    Attributes:
        similarity: The cosine that an answer must reach.
        false_accept_rate: At most this share of queries without a match finds one all the same.
        true_accept_rate: This share of the calibration's queries with a match reached the threshold.
        queries: How many queries it was calibrated on.
        gallery: Among how many pictures they searched. In a larger index there are more chances to err.
        data: Which data that was.
    """

    similarity: float = Field(ge=-1, le=1)
    false_accept_rate: float = Field(gt=0, lt=1)
    true_accept_rate: float
    queries: int
    gallery: int
    data: str = "validation"


class ModelCard(Section):
    """The content of ``model.json``.

    Attributes:
        name: What people call it.
        method: The method that trained it; empty if it is not one of levelfield's.
        architecture: The network of each part has this shape; several are concatenated.
        parts: How many networks there are, such as one per fold.
        size: The width of what comes out.
        pixels: How the trunk reads pixels.
        preprocessing: What happens to a picture before.
        whitened: Whether a whitening follows, whose tensors lie among the weights.
        data: What it was trained on.
        scores: How good it is.
        threshold: When to say "nothing like it here"; None if it was not calibrated.
        provenance: Versions, commit, time: how it came to be.
        notes: What a user must know, one sentence each; licences of pretrained weights among them.
        weights_sha256: The checksum of ``weights.safetensors``.
        identity: A hash of all that decides which vector a picture gets: weights, architecture,
            preprocessing. An index remembers it, and takes no vectors of another model.
    """

    format: Literal["levelfield-embedder"] = FORMAT
    version: Literal[1] = VERSION
    name: str
    method: str = ""
    architecture: Architecture
    parts: int = Field(default=1, ge=1)
    size: int = Field(ge=1)
    pixels: Pixels
    preprocessing: Preprocessing = Preprocessing()
    whitened: bool = False
    data: Data | None = None
    scores: tuple[Score, ...] = ()
    threshold: Threshold | None = None
    provenance: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    weights_sha256: str
    identity: str = ""

    def compute_identity(self) -> str:
        """What ``identity`` must be."""
        decisive = {"version", "architecture", "parts", "size", "preprocessing", "whitened", "weights_sha256"}
        text = json.dumps(self.model_dump(mode="json", include=decisive), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def read_card(folder: str | Path) -> ModelCard:
    """The card of the model in ``folder``; one clear line if there is none, or if it is another's.

    Example:
        >>> read_card("nowhere")
        Traceback (most recent call last):
        ...
        levelfield.errors.UsageError: nowhere is no model folder (it has no model.json); ...
    """
    file = Path(folder) / CARD
    if not file.is_file():
        raise UsageError(f"{folder} is no model folder (it has no {CARD}); make one with levelfield export")
    content = read_json(file)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UsageError(f"{file} does not describe a levelfield model; make one with levelfield export")
    if content.get("version") != VERSION:
        raise UsageError(
            f"{file} has version {content.get('version')}, this levelfield reads version {VERSION}; "
            "use the levelfield that wrote it, or export the model again"
        )
    try:
        card = ModelCard.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(f"{file} is damaged ({where}: {first['msg']}); export the model again") from error
    if card.identity != card.compute_identity():
        raise RunError(
            f"{file} was changed after it was written (its identity does not fit its architecture, "
            "preprocessing and weights); export the model again, or get it anew from who made it"
        )
    return card
