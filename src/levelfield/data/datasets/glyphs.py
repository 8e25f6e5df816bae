"""Glyphs, the built-in dataset: characters of ten alphabets in matplotlib's fonts; no download."""

from __future__ import annotations

import hashlib
import io
import logging
import zipfile
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from levelfield.core.errors import RunError
from levelfield.core.files import cache_directory, write_bytes
from levelfield.core.seeds import numpy_generator
from levelfield.data import register
from levelfield.data._dataset import Dataset
from levelfield.data._memory import MemoryImages
from levelfield.data.datasets._glyph_classes import ALPHABETS

Pixels = npt.NDArray[np.uint8]

_log = logging.getLogger(__name__)


@register(
    "glyphs",
    license="Rendered on your machine from the DejaVu, STIX and Computer Modern fonts, which are free to use",
    source="matplotlib's fonts",
)
def glyphs(
    *,
    samples_per_class: Annotated[int, Field(ge=2, le=200)] = 12,
    size: Annotated[int, Field(ge=16, le=256)] = 32,
    seed: int = 0,
) -> Dataset:
    """Characters of ten alphabets, each drawn in several fonts with a seeded jitter; needs no download.

    346 classes in alphabet order: the first half is Latin, Greek and Cyrillic, the second half Armenian,
    Georgian, Hebrew, Arabic and Lao. Images are grayscale, 1 x ``size`` x ``size``, light ink on dark paper.
    The same options, fonts and Pillow give the same pixels. The pixels are cached in the cache directory;
    rendering them takes a few seconds.

    Example:
        >>> dataset = glyphs(samples_per_class=2)
        >>> len(dataset), dataset.num_classes, dataset.images.read(0).shape
        (692, 346, torch.Size([1, 32, 32]))
    """
    classes = [(alphabet.name, character) for alphabet in ALPHABETS for character in alphabet.characters]
    pixels = _cached(samples_per_class, size, seed)
    labels = np.repeat(np.arange(len(classes), dtype=np.int64), samples_per_class)
    return Dataset(
        name="glyphs",
        images=MemoryImages(pixels),
        labels=labels,
        class_names=tuple(f"{alphabet} {character}" for alphabet, character in classes),
        fingerprint=hashlib.sha256(pixels.tobytes() + labels.tobytes()).hexdigest(),
    )


def _cached(samples_per_class: int, size: int, seed: int) -> Pixels:
    file = cache_directory() / f"glyphs-{_key(samples_per_class, size, seed)}.npz"
    shape = (sum(len(a.characters) for a in ALPHABETS) * samples_per_class, 1, size, size)
    pixels = _read(file, shape)
    if pixels is None:
        pixels = _render(samples_per_class, size, seed)
        _write(file, pixels)
    return pixels


def _key(samples_per_class: int, size: int, seed: int) -> str:
    """Return the digest of everything that pixels depend on: fonts, renderer, Pillow, classes, options."""
    import PIL

    from levelfield.data.datasets._glyph_render import RENDERER_VERSION, font_files

    digest = hashlib.sha256(
        repr((RENDERER_VERSION, PIL.__version__, ALPHABETS, samples_per_class, size, seed)).encode()
    )
    for file in font_files():
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:24]


def _render(samples_per_class: int, size: int, seed: int) -> Pixels:
    from levelfield.data.datasets._glyph_render import faces_with_glyph, render_sample

    images = []
    for alphabet in ALPHABETS:
        for character in alphabet.characters:
            generator = numpy_generator("glyphs", seed, character)
            faces = generator.permutation(np.array(faces_with_glyph(character), dtype=object))
            for number in range(samples_per_class):
                face = faces[number % len(faces)]
                images.append(render_sample(face, character, size=size, generator=generator))
    return np.stack(images)[:, None]


def _read(file: Path, shape: tuple[int, ...]) -> Pixels | None:
    """Return the cached pixels; None if the file is missing or damaged."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            pixels: Pixels = stored["pixels"]
            intact = hashlib.sha256(pixels.tobytes()).hexdigest() == str(stored["sha256"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        _log.info("glyphs are rendered again, because %s cannot be read: %s", file, error)
        return None
    return pixels if intact and pixels.shape == shape and pixels.dtype == np.uint8 else None


def _write(file: Path, pixels: Pixels) -> None:
    """Cache the pixels; a cache directory that is not writable is logged, not an error."""
    buffer = io.BytesIO()
    np.savez(buffer, pixels=pixels, sha256=np.array(hashlib.sha256(pixels.tobytes()).hexdigest()))
    try:
        write_bytes(file, buffer.getvalue())
    except RunError as error:
        _log.info("glyphs are not cached: %s", error)
