"""Exact and near duplicates between two sets of images.

Near duplicates are found in two steps. A 128-bit perceptual hash selects candidates. The correlation of small
gray thumbnails confirms them, because the hash alone matches many plain images.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from levelfield.data._dataset import Rows

MAX_BITS = 16  # bits of 128 that may differ; unrelated images differ in 35 or more
MIN_CORRELATION = 0.95
_THUMBNAIL = 16
_BLOCK = 512  # rows compared at a time

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ImageSignature:
    """Hashes of one image: a hash of its pixels, a perceptual hash, and a small gray thumbnail."""

    exact: bytes
    perceptual: npt.NDArray[np.float32]
    thumbnail: npt.NDArray[np.float32]


def compute_signature(pixels: Pixels) -> ImageSignature:
    """Return the signature of an image (uint8, H x W x C).

    Example:
        >>> compute_signature(np.zeros((9, 9, 3), dtype=np.uint8)).perceptual.shape
        (128,)
    """
    from scipy.fft import dctn  # slow to import, and every registry lookup imports this module

    exact = hashlib.blake2b(repr(pixels.shape).encode() + pixels.tobytes(), digest_size=16).digest()
    gray = Image.fromarray(pixels.squeeze()).convert("L")
    slopes = np.asarray(gray.resize((9, 8), Image.Resampling.BOX), dtype=np.int16)
    fine = np.asarray(gray.resize((32, 32), Image.Resampling.BOX), dtype=np.float64)
    waves = dctn(fine, norm="ortho")[:8, :8].ravel()
    bits = np.concatenate([np.diff(slopes, axis=1).ravel() > 0, waves > np.median(waves[1:])])
    small = np.asarray(gray.resize((_THUMBNAIL,) * 2, Image.Resampling.BOX), dtype=np.float32).ravel()
    small = small - small.mean()
    return ImageSignature(
        exact=exact,
        perceptual=np.where(bits, np.float32(1), np.float32(-1)),
        thumbnail=small / max(float(np.linalg.norm(small)), 1e-6),
    )


def group_exact_duplicates(signatures: list[ImageSignature]) -> list[list[int]]:
    """Return groups of two or more images with identical pixels, as indices into ``signatures``."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for number, signature in enumerate(signatures):
        groups[signature.exact].append(number)
    return [group for group in groups.values() if len(group) > 1]


def find_near_duplicates(signatures: list[ImageSignature], one: Rows, other: Rows) -> list[tuple[int, int]]:
    """Return pairs of an image in ``one`` and an image in ``other`` that look alike but are not identical."""
    if not len(one) or not len(other):
        return []
    hashes = np.stack([signature.perceptual for signature in signatures])  # bits as 1 and -1
    pairs = []
    for start in range(0, len(one), _BLOCK):
        block = one[start : start + _BLOCK]
        agree = hashes[block] @ hashes[other].T  # equal bits minus different bits
        for left, right in zip(*np.nonzero(agree >= hashes.shape[1] - 2 * MAX_BITS), strict=True):
            a, b = int(block[left]), int(other[right])
            same = signatures[a].exact == signatures[b].exact
            if not same and float(signatures[a].thumbnail @ signatures[b].thumbnail) >= MIN_CORRELATION:
                pairs.append((a, b))
    return pairs
