"""Image files, decoded on read to RGB with 8 bits per channel."""

from __future__ import annotations

import importlib
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from levelfield.core.errors import RunError
from levelfield.data._boxes import crop_to_box
from levelfield.data._content import FileContents, file_stamp, hash_file
from levelfield.data._dataset import Rows

MAX_PIXELS = 80_000_000  # 240 MB once decoded; far above the images of any benchmark
# Pillow detects a format from the content and knows some that are programs: a PostScript file named photo.jpg
# would start Ghostscript. These are images only. MPO is the JPEG of cameras with several images in one file.
RASTER_FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP")
# Photos of phones. Pillow reads them only with this package; see docs/datasets.md.
HEIC_SUFFIXES, HEIC_PACKAGE = frozenset((".heic", ".heif")), "pillow-heif"
_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")


class ImageError(RunError):
    """Raised for a file that is not a readable image."""


class FileImages:
    """Image files, read as RGB (see :func:`to_rgb`).

    Args:
        root: Folder that relative paths start from.
        paths: Paths of the image files, relative to ``root`` or absolute.
        contents: Contents of the files when the dataset was opened. A file that changed since raises.
        boxes: Part of each image to read (N x 4: left, top, right, bottom, in pixels); NaN for whole images.
    """

    def __init__(
        self,
        root: str | Path,
        paths: Sequence[str],
        contents: FileContents | None = None,
        boxes: npt.NDArray[np.float64] | None = None,
    ) -> None:
        self.root = Path(root)
        self.paths = tuple(paths)
        self.boxes = boxes
        self._contents = contents

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, row: int) -> Tensor:
        """Return image ``row`` as a uint8 tensor of shape 3 x H x W; raise ImageError if it is unreadable."""
        path = self.root / self.paths[row]
        image = read_image(path)
        if self._contents is not None:
            self._check_unchanged(path, row, self._contents)  # after reading: no change in between is missed
        return image if self.boxes is None else self._part(image, row, path)

    def _part(self, image: Tensor, row: int, path: Path) -> Tensor:
        assert self.boxes is not None, "whole images have no parts"
        try:
            return crop_to_box(image, self.boxes[row])
        except ValueError as error:
            raise ImageError(f"{path}: {error}; correct it") from error

    def select(self, rows: Rows) -> FileImages:
        """Return the images of these rows, in this order."""
        contents = self._contents
        if contents is not None:
            contents = FileContents(contents.digests[rows], contents.stamps[rows], ())
        boxes = None if self.boxes is None else self.boxes[rows]
        return FileImages(self.root, [self.paths[row] for row in rows.tolist()], contents, boxes)

    def _check_unchanged(self, path: Path, row: int, contents: FileContents) -> None:
        """Raise if the content is not that of the opening; another time or inode alone is no change."""
        try:
            stamp = file_stamp(path.stat())
            if stamp == tuple(contents.stamps[row].tolist()):
                return
            same = hash_file(path) == contents.digests[row].tobytes()
        except OSError as error:
            raise ImageError(f"{path}: {error.strerror or error}; restore it") from error
        if not same:
            raise ImageError(
                f"{path}: changed after the dataset was opened, so results would mix two versions; give the "
                "same command again"
            )
        contents.stamps[row] = stamp


def read_image(path: Path) -> Tensor:
    """Return the image in a file as a uint8 tensor of shape 3 x H x W (RGB)."""
    _check_regular_file(path)
    return decode_image(path, name=str(path))


def decode_image(source: Path | BinaryIO, *, name: str, max_pixels: int = MAX_PIXELS) -> Tensor:
    """Return the image in a file or in a stream of bytes as a uint8 tensor of shape 3 x H x W (RGB).

    Args:
        source: File or stream to decode. The format is detected from the content, not from the name.
        name: Name used in error messages.
        max_pixels: Largest allowed size; a larger image raises before it is decoded.

    Example:
        >>> import io
        >>> stream = io.BytesIO()
        >>> Image.new("L", (4, 2)).save(stream, "PNG")
        >>> decode_image(stream, name="blank.png").shape
        torch.Size([3, 2, 4])
    """
    try:
        with open_raster(source) as image:
            if image.width * image.height > max_pixels:
                raise Image.DecompressionBombError(f"{image.width} x {image.height} pixels")
            return to_tensor(image)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(
            f"{name}: too large, possibly an image bomb ({error}, the limit is {max_pixels:,}); "
            "remove or shrink it"
        ) from error
    except ImageError as error:
        raise ImageError(f"{name}: {error}") from error
    except UnidentifiedImageError as error:
        raise ImageError(
            f"{name}: not an image in a known format ({', '.join(RASTER_FORMATS)}); remove or convert it, "
            "or fetch it again"
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # Pillow's decoders raise many kinds on damaged files
        raise ImageError(f"{name}: damaged or truncated ({error}); remove it or fetch it again") from error


def unreadable_reason(path: Path) -> str:
    """Return the reason why a file cannot be read as an image; empty if it can.

    A JPEG is decoded at an eighth of its size, which reads the whole file in a fraction of the time.
    """
    try:
        _check_regular_file(path)
        with open_raster(path) as image:
            if image.width * image.height > MAX_PIXELS:
                return f"{path}: larger than {MAX_PIXELS:,} pixels; shrink it"
            image.draft("RGB", (64, 64))
            image.load()
            if image.mode in {"I", "F"} and image.format not in {"PNG", "PPM"}:
                return f"{path}: mode {image.mode} has no standard value range; save it with 8 or 16 bits"
    except ImageError as error:
        return str(error)
    except UnidentifiedImageError:
        return f"{path}: not an image in a known format"
    except Exception as error:  # Pillow's decoders raise many kinds on damaged files
        return f"{path}: damaged or truncated ({error})"
    return ""


def open_raster(source: Path | BinaryIO) -> Image.Image:
    """Open an image in one of the ``RASTER_FORMATS``; every image file is opened here.

    Raises:
        UnidentifiedImageError: The content is in no allowed format, whatever the name says.

    Example:
        >>> import io
        >>> open_raster(io.BytesIO(b"%!PS-Adobe-3.0 EPSF-3.0"))
        Traceback (most recent call last):
        ...
        PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO object at ...>
    """
    Image.init()  # a Pillow without a library does not register its formats, and rejects them as names
    names = (*RASTER_FORMATS, "HEIF") if _has_heic() else RASTER_FORMATS
    return _pillow_open(source, formats=[name for name in names if name in Image.OPEN])


@cache
def _has_heic() -> bool:
    """Register the reader of HEIC files with Pillow; return False if its package is not installed."""
    try:
        register = importlib.import_module("pillow_heif").register_heif_opener
    except ImportError:
        return False
    register()
    return True


_pillow_open = Image.open
_patching, _patches = threading.Lock(), 0


@contextmanager
def only_raster_formats() -> Iterator[None]:
    """Make Pillow's own ``Image.open`` accept ``RASTER_FORMATS`` only, for libraries that call it themselves.

    The restriction holds for all threads of the process until the last block ends.
    """
    global _patches  # noqa: PLW0603 - Pillow's function is global, and so is the number of its users
    with _patching:
        _patches += 1
        Image.open = _open_restricted  # type: ignore[assignment]  # restored below
    try:
        yield
    finally:
        with _patching:
            _patches -= 1
            if not _patches:
                Image.open = _pillow_open


def _open_restricted(fp: Any, mode: str = "r", formats: Sequence[str] | None = None) -> Image.Image:
    return open_raster(Path(os.fsdecode(fp)) if isinstance(fp, (str, bytes)) else fp)


def _check_regular_file(path: Path) -> None:
    """Raise ImageError for missing, empty and unreadable files, and for pipes, which would block."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", "") or error
        raise ImageError(f"{path}: {reason}; check the path, or fetch the dataset again") from error
    if not stat.S_ISREG(status.st_mode):
        raise ImageError(f"{path}: not a regular file; leave it out")
    if status.st_size == 0:
        raise ImageError(f"{path}: the file is empty (0 bytes); fetch it again")
    if not os.access(path, os.R_OK):
        raise ImageError(f"{path}: permission denied; make it readable")


def to_tensor(image: Image.Image) -> Tensor:
    """Return a decoded Pillow image, in any mode, as a uint8 tensor of shape 3 x H x W.

    The tensor is channels-last in memory, as fast resampling needs it.

    Example:
        >>> to_tensor(Image.new("L", (4, 2), 7)).shape
        torch.Size([3, 2, 4])
    """
    pixels = np.array(to_rgb(image), dtype=np.uint8)
    return torch.from_numpy(pixels).permute(2, 0, 1)


def to_rgb(image: Image.Image) -> Image.Image:
    """Return the image in upright orientation and in RGB.

    - The EXIF orientation is applied.
    - Grayscale and palette images become RGB. An animation becomes its first frame.
    - Transparent parts become white, since their hidden colors are arbitrary.
    - 16 bits per channel are scaled to 8 (65535 becomes 255), not cut off at 255.
    - CMYK is converted by Pillow's formula, without color profiles.
    - Floating-point and 32-bit images raise ImageError: they have no standard value range.

    Example:
        >>> to_rgb(Image.new("CMYK", (1, 1), (0, 0, 0, 0))).getpixel((0, 0))
        (255, 255, 255)
    """
    # Older Pillow opens 16-bit PNG and PPM as 32-bit; read the format before exif_transpose drops it.
    wide_format = image.format in {"PNG", "PPM"}
    image = ImageOps.exif_transpose(image)
    if image.mode in _SIXTEEN_BITS or (image.mode == "I" and wide_format):
        wide = np.asarray(image, dtype=np.int64).clip(0, 65535)
        image = Image.fromarray(((wide + 128) // 257).astype(np.uint8))
    elif image.mode in {"I", "F"}:
        raise ImageError(f"mode {image.mode} has no standard value range; save the image with 8 or 16 bits")
    if image.mode in {"RGBA", "LA", "PA", "RGBa"} or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return image.convert("RGB")
