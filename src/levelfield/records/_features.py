"""What the features of a frozen trunk are called: the hash of everything that they depend on."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from levelfield.config import Section
from levelfield.records._digest import digest


class PluginIdentity(Section):
    """A plug-in with its options; ``source`` is the hash of its code if it is not part of this package."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    source: str | None = None


class FeatureIdentity(Section):
    """Everything that features of a frozen trunk depend on.

    Attributes:
        dataset: Its name, options and source, and
        fingerprint: the hash of its content.
        rows: Which of its images, in which order; see :func:`rows_digest`.
        trunk: The network, with its options.
        inputs: How the network wants its pixels: mean, deviation, scale, order of channels.
        weights: The hash of the tensors of trunk and pooling, and of the printed layers.
        pooling: How maps become vectors.
        transform: What is done to images before they enter the network.
        transform_texts: How the transform that is made from it prints itself: for the plain view, and for
            the augmented ones if there are any.
        views: How many augmented views each image has besides the plain one.
        seed: Of the augmentation; 0 without views.
        computed_with: Library versions and kind of processor, which the last bits of features depend on.
        algorithm: Counts up when a change of levelfield itself changes features.
    """

    dataset: PluginIdentity
    fingerprint: str
    rows: str
    trunk: PluginIdentity
    inputs: str = ""
    weights: str
    pooling: str
    transform: PluginIdentity
    transform_texts: tuple[str, ...] = ()
    views: int = 0
    seed: int = 0
    computed_with: str = ""
    algorithm: int = 2


def feature_id(identity: FeatureIdentity) -> str:
    """The name of the features' folder.

    Example:
        >>> plain = PluginIdentity(name="none")
        >>> same = {"dataset": plain, "fingerprint": "f", "trunk": plain, "weights": "w", "pooling": "avg"}
        >>> one, other = (FeatureIdentity(rows=rows, transform=plain, **same) for rows in "ab")
        >>> len(feature_id(one)), feature_id(one) == feature_id(other)
        (16, False)
    """
    return digest(identity.model_dump(mode="json"))


def rows_digest(rows: NDArray[np.int64]) -> str:
    """A short name for which rows (n,) of a dataset are meant; their order counts.

    Example:
        >>> rows_digest(np.array([0, 1])) == rows_digest(np.arange(2)), len(rows_digest(np.arange(2)))
        (True, 16)
    """
    return hashlib.sha256(np.ascontiguousarray(rows, dtype="<i8").tobytes()).hexdigest()[:16]
