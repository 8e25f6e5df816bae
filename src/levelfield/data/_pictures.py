"""Images that another library hands out, one Pillow image (or array) per row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from PIL import Image
from torch import Tensor

from levelfield.data._dataset import Rows
from levelfield.data._files import ImageError, to_tensor

Open = Callable[[int], object]


class PictureImages:
    """The pictures ``open_picture(row)`` of these rows, as RGB."""

    def __init__(self, open_picture: Open, rows: Rows) -> None:
        self._open = open_picture
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, row: int) -> Tensor:
        """Image ``row`` as a uint8 tensor of shape 3 x H x W; ImageError if it cannot be read."""
        return picture_tensor(self._open(int(self._rows[row])))

    def select(self, rows: Rows) -> PictureImages:
        """Just these rows.

        The library's own object stays behind them, since most keep all of their images in one piece.
        """
        return PictureImages(self._open, self._rows[rows])


def picture_tensor(picture: object) -> Tensor:
    """A Pillow image, a uint8 array H x W (x C) or a uint8 tensor C x H x W, as RGB 3 x H x W.

    Example:
        >>> picture_tensor(np.zeros((2, 4), dtype=np.uint8)).shape
        torch.Size([3, 2, 4])
    """
    if isinstance(picture, Tensor):
        picture = picture.permute(1, 2, 0).squeeze(-1).numpy()
    if isinstance(picture, np.ndarray) and picture.dtype == np.uint8:
        picture = Image.fromarray(picture)
    if isinstance(picture, Image.Image):
        return to_tensor(picture)
    raise ImageError(f"a {type(picture).__name__} is no image; name the column that holds images")


def fingerprint(images: PictureImages, *parts: object, samples: int = 32) -> str:
    """A hash of these parts (arrays or text) and of the pixels of a few images, evenly spread."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    for row in np.unique(np.linspace(0, len(images) - 1, samples).astype(int)).tolist():
        image = images.read(row)
        digest.update(repr(tuple(image.shape)).encode() + image.contiguous().numpy().tobytes())
    return digest.hexdigest()
