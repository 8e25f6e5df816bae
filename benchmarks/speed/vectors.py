"""Plug-in with the data of the whole job: class-wise vectors in the shape of CUB-200-2011's features.

200 classes of 59 vectors with 1,280 numbers. A vector is stored as a gray image of 32 x 40 pixels, and the
trunk ``pixels`` gives it back unchanged, so both sides train heads on the same cached features.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from torch import nn

import levelfield as lf
from levelfield.models import InputRecipe

CLASSES, PER_CLASS, SHAPE = 200, 59, (1, 32, 40)
LATENT, CLASS_SPREAD = 96, 0.48  # about the scores of pretrained features on CUB


@cache
def make_vectors(classes: int = CLASSES) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return vectors (N x 1 x 32 x 40) of noisy classes, at least 0 like a network's features, and labels."""
    random, width = np.random.default_rng(0), int(np.prod(SHAPE))
    labels = np.repeat(np.arange(classes), PER_CLASS)
    latent = CLASS_SPREAD * random.normal(size=(classes, LATENT))[labels]
    latent += random.normal(size=(len(labels), LATENT))
    made = latent.astype(np.float32) @ random.normal(size=(LATENT, width)).astype(np.float32)
    pixels = (made * (60 / LATENT**0.5)).clip(0, 255).astype(np.uint8)
    return pixels.reshape(-1, *SHAPE), labels


@lf.data.register("class_vectors", license="MIT", source="made by a random generator")
def class_vectors(*, classes: int = CLASSES) -> lf.data.Dataset:
    """Vectors of noisy classes, as gray images."""
    pixels, labels = make_vectors(classes)
    return lf.data.from_arrays("class_vectors", pixels, labels, [f"class {n}" for n in range(classes)])


@lf.models.register("pixels")
def pixels(*, in_channels: int = 1) -> lf.models.Trunk:
    """Trunk whose features are the pixels, from 0 to 1."""
    plain = InputRecipe(mean=(0.0,), std=(1.0,))
    width = int(np.prod(SHAPE))
    return lf.models.Trunk(nn.Flatten(), name="pixels", num_features=width, spatial=False, inputs=plain)
