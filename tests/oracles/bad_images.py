"""Image files that users really have: damaged, huge, animated, in odd modes, with wrong extensions."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image


def encoded(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def noise(seed=0, size=(40, 30)):
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def bomb():
    """A PNG of a few bytes that announces 60,000 x 60,000 pixels."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def readable():
    """Unusual but readable images: bytes by file name."""
    frames = [noise(number) for number in range(3)]
    sixteen = Image.fromarray((np.arange(1200, dtype=np.uint16) * 54).reshape(30, 40))
    return {
        "animated.gif": encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        "cmyk.jpg": encoded(noise(3).convert("CMYK"), "JPEG"),
        "sixteen_bits.png": encoded(sixteen, "PNG"),
        "mislabeled.jpg": encoded(noise(4), "PNG"),
        "palette.png": encoded(noise(5).convert("P"), "PNG"),
        "one_pixel.png": encoded(noise(6, size=(1, 1)), "PNG"),
    }


def unreadable():
    """Unreadable images: bytes and a part of the error, by file name."""
    whole = encoded(noise(7), "JPEG")
    return {
        "truncated.jpg": (whole[: len(whole) // 2], "damaged or truncated"),
        "bomb.png": (bomb(), "image bomb"),
        "empty.jpg": (b"", "empty (0 bytes)"),
        "letter.jpg": (b"Dear Sir or Madam", "not an image"),
        "float.tiff": (
            encoded(Image.fromarray(np.ones((4, 4), np.float32)), "TIFF"),
            "no standard value range",
        ),
    }
