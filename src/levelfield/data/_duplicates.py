"""Finding images that are the same, or nearly so, on both sides of the train/test border.

Near duplicates are found in two steps: a 128-bit perceptual hash names the candidates, and the correlation
of small grey pictures confirms them, since a hash alone calls many a plain picture alike.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from levelfield.data._dataset import Rows

MAX_BITS = 16  # of 128 that may differ; unlike photographs differ in 35 and more
MIN_CORRELATION = 0.95
_THUMBNAIL = 16
_BLOCK = 512  # rows compared at a time

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Print:
    """What is kept of one image: a hash of its pixels, its perceptual hash, and a small grey picture."""

    exact: bytes
    perceptual: npt.NDArray[np.float32]
    thumbnail: npt.NDArray[np.float32]


def print_of(pixels: Pixels) -> Print:
    """The print of an image (uint8, H x W x C).

    Example:
        >>> print_of(np.zeros((9, 9, 3), dtype=np.uint8)).perceptual.shape
        (128,)
    """
    from scipy.fft import dctn  # takes long to import, and every registry look-up passes by here

    exact = hashlib.blake2b(repr(pixels.shape).encode() + pixels.tobytes(), digest_size=16).digest()
    grey = Image.fromarray(pixels.squeeze()).convert("L")
    slopes = np.asarray(grey.resize((9, 8), Image.Resampling.BOX), dtype=np.int16)
    fine = np.asarray(grey.resize((32, 32), Image.Resampling.BOX), dtype=np.float64)
    waves = dctn(fine, norm="ortho")[:8, :8].ravel()
    bits = np.concatenate([np.diff(slopes, axis=1).ravel() > 0, waves > np.median(waves[1:])])
    small = np.asarray(grey.resize((_THUMBNAIL,) * 2, Image.Resampling.BOX), dtype=np.float32).ravel()
    small = small - small.mean()
    return Print(
        exact=exact,
        perceptual=np.where(bits, np.float32(1), np.float32(-1)),
        thumbnail=small / max(float(np.linalg.norm(small)), 1e-6),
    )


def exact_groups(prints: list[Print]) -> list[list[int]]:
    """Groups of two or more images with the very same pixels, by their numbers."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for number, print_ in enumerate(prints):
        groups[print_.exact].append(number)
    return [group for group in groups.values() if len(group) > 1]


def near_pairs(prints: list[Print], one: Rows, other: Rows) -> list[tuple[int, int]]:
    """Pairs of an image of ``one`` and one of ``other`` that look nearly the same but differ somewhere."""
    if not len(one) or not len(other):
        return []
    hashes = np.stack([print_.perceptual for print_ in prints])  # 1 and -1 for the bits
    pairs = []
    for start in range(0, len(one), _BLOCK):
        block = one[start : start + _BLOCK]
        agree = hashes[block] @ hashes[other].T  # bits that agree less bits that differ
        for left, right in zip(*np.nonzero(agree >= hashes.shape[1] - 2 * MAX_BITS), strict=True):
            a, b = int(block[left]), int(other[right])
            same = prints[a].exact == prints[b].exact
            if not same and float(prints[a].thumbnail @ prints[b].thumbnail) >= MIN_CORRELATION:
                pairs.append((a, b))
    return pairs
