"""Attack the decoder with damaged images of all formats, as files, as bytes and for their date.

From the root of the repository::

    python -m tools.attacks.images --count 60000

Each image must be read, or refused in one line, within 10 seconds.
"""

from __future__ import annotations

import argparse
import io
import random
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from levelfield.core.errors import LevelfieldError
from levelfield.data import decode_image, read_image
from levelfield.data._image_files import unreadable_reason
from levelfield.data.capture_date import capture_date
from tools.attacks.limits import Score

ODD_NUMBERS = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0")
HEADER = 400  # most numbers that decide about the work are among the first bytes


def main() -> int:
    """Run the attack and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    return attack(options.count, random.Random(options.seed)).show()


def attack(count: int, chance: random.Random) -> Score:
    """Return the ends of ``count`` attacks; every fourth one is a file."""
    score, images = Score(), samples()
    with tempfile.TemporaryDirectory(prefix="levelfield-images-") as directory:
        file = Path(directory) / "photo.jpg"
        for number in range(count):
            content = damage(bytearray(chance.choice(images)), chance)
            if number % 4:
                run: Callable[[], Any] = partial(decode_image, io.BytesIO(content), name="photo")
            else:
                file.write_bytes(content)
                run = partial(read_file, file)
            score.attack(f"image {number}", run)
    return score


def read_file(file: Path) -> None:
    """Read the date, the reason why a file is unreadable, and the image; the first two may not raise."""
    try:
        capture_date(file)
        unreadable_reason(file)
    except LevelfieldError as error:
        raise AssertionError(f"raised {error}") from error
    read_image(file)


def samples() -> list[bytes]:
    """Return a small image in every format, with several compressions and kinds of pixels."""
    pixels = np.random.default_rng(0).integers(0, 255, (40, 48, 3), dtype=np.uint8)
    color = Image.fromarray(pixels)
    wide = Image.fromarray(pixels[..., 0].astype(np.uint16) * 257)
    exif = Image.Exif()
    exif[0x0112], exif[0x0132] = 6, "2020:01:01 00:00:00"
    exif.get_ifd(0x8769)[0x9003] = "2020:01:01 00:00:00"
    several: dict[str, Any] = {"save_all": True, "append_images": [color]}
    kinds: list[tuple[Image.Image, str, dict[str, Any]]] = [
        *((color, name, {"exif": exif}) for name in ("PNG", "JPEG", "WEBP", "AVIF")),
        *((color, name, {}) for name in ("BMP", "PPM", "TIFF", "JPEG2000")),
        *((color, name, several) for name in ("GIF", "TIFF", "MPO", "WEBP")),
        *((color, "TIFF", {"compression": name}) for name in ("tiff_lzw", "jpeg", "tiff_deflate")),
        *((color.convert(mode), "TIFF", {}) for mode in ("CMYK", "F", "1")),
        *((color.convert(mode), "PNG", {}) for mode in ("P", "LA", "1")),
        (color, "JPEG", {"progressive": True}),
        (color.convert("CMYK"), "JPEG", {}),
        (color.convert("1"), "BMP", {}),
        (color, "WEBP", {"lossless": True}),
        (wide, "PNG", {}),
    ]
    Image.init()
    found = []
    for image, name, options in kinds:
        if name in Image.SAVE:  # Pillow may lack a library
            stream = io.BytesIO()
            image.save(stream, name, **options)
            found.append(stream.getvalue())
    return found


def damage(content: bytearray, chance: random.Random) -> bytes:
    """Return the content with some bytes changed, removed, added, repeated or cut off."""
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        end = min(len(content), HEADER) if chance.random() < 0.7 else len(content)
        place, kind = chance.randrange(end), chance.random()
        if kind < 0.5:
            content[place] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        elif kind < 0.6:
            del content[place : place + chance.randrange(1, 40)]
        elif kind < 0.7:
            content[place:place] = chance.randbytes(chance.randrange(1, 20))
        elif kind < 0.8:
            content[place : place + 4] = chance.choice(ODD_NUMBERS)
        elif kind < 0.85:
            del content[place:]
        else:
            other = chance.randrange(len(content))
            content[place : place + 8] = content[other : other + 8]
        content = content or bytearray(b"\0")
    return bytes(content)


if __name__ == "__main__":
    raise SystemExit(main())
