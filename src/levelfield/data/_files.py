"""Images that lie in files: decoded when they are read, always to RGB with 8 bits per channel."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from levelfield.data._dataset import Rows
from levelfield.errors import RunError

MAX_PIXELS = 80_000_000  # 240 MB once decoded; no photograph of a benchmark comes near it
_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")


class ImageError(RunError):
    """A file that is no readable image."""


class FileImages:
    """Image files below a folder; ``paths`` are relative to ``root``, or absolute.

    Every image comes out as RGB, see :func:`to_rgb`.
    """

    def __init__(self, root: str | Path, paths: Sequence[str]) -> None:
        self.root = Path(root)
        self.paths = tuple(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, row: int) -> Tensor:
        """Image ``row`` as a uint8 tensor of shape 3 x H x W; ImageError if it cannot be read."""
        return read_image(self.root / self.paths[row])

    def select(self, rows: Rows) -> FileImages:
        """Just these files, in this order."""
        return FileImages(self.root, [self.paths[row] for row in rows.tolist()])


def read_image(path: Path) -> Tensor:
    """The image in a file as a uint8 tensor of shape 3 x H x W (RGB)."""
    _refuse_non_files(path)
    return decode_image(path, name=str(path))


def decode_image(source: Path | BinaryIO, *, name: str, max_pixels: int = MAX_PIXELS) -> Tensor:
    """The image in a file or in a stream of bytes as a uint8 tensor of shape 3 x H x W (RGB).

    Args:
        source: What to decode; what it says of itself by its name does not matter, its bytes decide.
        name: What errors call it.
        max_pixels: An image that announces more is refused before any pixel is decoded.

    Example:
        >>> import io
        >>> stream = io.BytesIO()
        >>> Image.new("L", (4, 2)).save(stream, "PNG")
        >>> decode_image(stream, name="blank.png").shape
        torch.Size([3, 2, 4])
    """
    try:
        with Image.open(source) as image:
            if image.width * image.height > max_pixels:
                raise Image.DecompressionBombError(f"{image.width} x {image.height} pixels")
            return to_tensor(image)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(
            f"{name}: refused as an image bomb ({error}, the limit is {max_pixels:,}); remove or shrink it"
        ) from error
    except ImageError as error:
        raise ImageError(f"{name}: {error}") from error
    except UnidentifiedImageError as error:
        raise ImageError(f"{name}: not an image in a known format; remove it or fetch it again") from error
    except (OSError, ValueError, SyntaxError, EOFError, KeyError, IndexError, struct.error) as error:
        # Pillow's decoders raise all of these on damaged files.
        raise ImageError(f"{name}: damaged or truncated ({error}); remove it or fetch it again") from error


def _refuse_non_files(path: Path) -> None:
    """Say clearly what an empty file is, and do not open a pipe: that would wait for ever."""
    try:
        status = path.stat()
    except OSError as error:
        raise ImageError(
            f"{path}: {error.strerror or error}; check the path, or fetch the dataset again"
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise ImageError(f"{path}: not a regular file; leave it out")
    if status.st_size == 0:
        raise ImageError(f"{path}: the file is empty (0 bytes); fetch it again")
    if not os.access(path, os.R_OK):
        raise ImageError(f"{path}: permission denied; make it readable")


def to_tensor(image: Image.Image) -> Tensor:
    """A decoded Pillow image, in any mode, as a uint8 tensor of shape 3 x H x W.

    In memory the channels of a pixel lie side by side, as they were decoded and as resampling wants them.

    Example:
        >>> to_tensor(Image.new("L", (4, 2), 7)).shape
        torch.Size([3, 2, 4])
    """
    pixels = np.array(to_rgb(image), dtype=np.uint8)
    return torch.from_numpy(pixels).permute(2, 0, 1)


def to_rgb(image: Image.Image) -> Image.Image:
    """The image upright and in RGB.

    - The EXIF orientation is applied: the image stands as its photographer saw it.
    - Greyscale and palette images become RGB; of an animation the first frame is taken.
    - Transparent parts are laid on white, since the colours that they hide are arbitrary.
    - 16 bits per channel are scaled to 8 (65535 becomes 255), not cut off at 255.
    - CMYK is converted by Pillow's formula, without colour profiles.
    - Floating-point and 32-bit images have no agreed range and are refused.

    Example:
        >>> to_rgb(Image.new("CMYK", (1, 1), (0, 0, 0, 0))).getpixel((0, 0))
        (255, 255, 255)
    """
    # Older Pillows open 16-bit PNG and PPM as 32-bit, so the file's format must tell; turning forgets it.
    wide_format = image.format in {"PNG", "PPM"}
    image = ImageOps.exif_transpose(image)
    if image.mode in _SIXTEEN_BITS or (image.mode == "I" and wide_format):
        wide = np.asarray(image, dtype=np.int64).clip(0, 65535)
        image = Image.fromarray(((wide + 128) // 257).astype(np.uint8))
    elif image.mode in {"I", "F"}:
        raise ImageError(f"pixels of mode {image.mode} have no agreed range; save it with 8 or 16 bits")
    if image.mode in {"RGBA", "LA", "PA", "RGBa"} or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return image.convert("RGB")
