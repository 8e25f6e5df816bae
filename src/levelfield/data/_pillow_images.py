"""Images of another library, which returns one Pillow image or array per row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from levelfield.core.errors import LevelfieldError
from levelfield.data._content import Digests, hash_arrays
from levelfield.data._dataset import Rows
from levelfield.data._image_files import RASTER_FORMATS, ImageError, to_tensor

OpenImage = Callable[[int], object]


class PillowImages:
    """Images ``open_image(row)`` of the given rows, as RGB."""

    def __init__(self, open_image: OpenImage, rows: Rows) -> None:
        self._open = open_image
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, row: int) -> Tensor:
        """Return image ``row`` as a uint8 tensor of shape 3 x H x W; raise ImageError if it is unreadable."""
        try:
            return to_rgb_tensor(self._open(int(self._rows[row])))
        except UnidentifiedImageError as error:
            raise ImageError(
                f"image {row} is not in a known format ({', '.join(RASTER_FORMATS)}); remove or convert it"
            ) from error
        except (LevelfieldError, MemoryError):
            raise
        except Exception as error:  # decoders raise many kinds on damaged files
            raise ImageError(
                f"image {row} is damaged or truncated ({error}); remove it or fetch it again"
            ) from error

    def select(self, rows: Rows) -> PillowImages:
        """Return the images of these rows, in this order.

        The result keeps a reference to the library's whole dataset, since most libraries store it as one.
        """
        return PillowImages(self._open, self._rows[rows])


def to_rgb_tensor(image: object) -> Tensor:
    """Return a Pillow image, a uint8 array H x W (x C) or a uint8 tensor C x H x W, as RGB 3 x H x W.

    Example:
        >>> to_rgb_tensor(np.zeros((2, 4), dtype=np.uint8)).shape
        torch.Size([3, 2, 4])
    """
    if isinstance(image, Tensor) and image.dtype == torch.uint8 and image.ndim == 3 and len(image) == 3:
        return image
    if isinstance(image, Tensor):
        image = image.permute(1, 2, 0).squeeze(-1).numpy()
    if isinstance(image, np.ndarray) and image.dtype == np.uint8:
        image = Image.fromarray(image)
    if isinstance(image, Image.Image):
        return to_tensor(image)
    raise ImageError(f"a {type(image).__name__} is not an image; name the column that holds images")


def hash_images(images: PillowImages) -> Digests:
    """Return the digest of each image's pixels; every image is decoded."""
    return hash_arrays(images.read(row).numpy() for row in range(len(images)))


def fingerprint(digests: Digests, *parts: object) -> str:
    """Return the digest of ``parts`` and of the content of every image."""
    digest = hashlib.sha256()
    for part in (digests, *parts):
        digest.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return digest.hexdigest()
