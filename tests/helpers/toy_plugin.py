"""Plug-in as a user would write it: a small dataset of noisy patterns."""

from __future__ import annotations

import numpy as np

import levelfield as lf
from levelfield.data import Dataset, from_arrays


@lf.data.register("toy_images")
def toy_images(*, classes: int = 24, samples: int = 6, seed: int = 0) -> Dataset:
    """Return noisy 16 x 16 patterns, one pattern per class."""
    random = np.random.default_rng(seed)
    patterns = random.integers(0, 256, (classes, 1, 1, 16, 16))
    noisy = patterns + random.normal(0, 60, (classes, samples, 1, 16, 16))
    pixels = noisy.clip(0, 255).astype(np.uint8).reshape(-1, 1, 16, 16)
    labels = np.repeat(np.arange(classes), samples)
    return from_arrays("toy_images", pixels, labels, [f"pattern {number}" for number in range(classes)])
