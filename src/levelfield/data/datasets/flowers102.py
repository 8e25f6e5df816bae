"""Oxford Flowers-102: 102 species of flowers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelfield.core.errors import UsageError
from levelfield.data import register
from levelfield.data._dataset import Dataset, Download
from levelfield.data._listing import find_root, from_files

_OXFORD = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102"
CLASSES = 102


@register(
    "flowers102",
    paper="Automated Flower Classification over a Large Number of Classes",
    year=2008,
    license="None is stated; the images were collected from the web and belong to their owners",
    source=f"{_OXFORD}/",
    citation="M.-E. Nilsback, A. Zisserman: Automated Flower Classification over a Large Number of Classes. "
    "Indian Conference on Computer Vision, Graphics and Image Processing, 2008.",
    downloads=(
        Download(
            urls=(f"{_OXFORD}/102flowers.tgz",),
            file="102flowers.tgz",
            md5="52808999861908f626f3c1f4e79d11fa",
            into="flowers-102",
        ),
        Download(
            urls=(f"{_OXFORD}/imagelabels.mat",),
            file="flowers-102/imagelabels.mat",
            md5="e0620be6f572b9609742df49c70aed4d",
        ),
    ),
)
def flowers102(*, root: str = "data") -> Dataset:
    """Oxford Flowers-102: 8,189 images of 102 species of flowers.

    Classes 1-51 are for training (3,493 images), 52-102 for the test (4,696).

    ``root`` is the folder with ``imagelabels.mat`` and ``jpg``, or its parent, which holds it as
    ``flowers-102``. The file ``setid.mat`` is for classification and not used; the split by class is ours,
    made like that of CUB.
    """
    folder = find_root("flowers102", root, folder="flowers-102", marker="imagelabels.mat")
    labels = _read(folder / "imagelabels.mat") - 1
    if labels.min() < 0 or labels.max() >= CLASSES:
        raise UsageError(
            f"flowers102: imagelabels.mat in {folder} has classes outside 1 to {CLASSES}; fetch it again"
        )
    return from_files(
        "flowers102",
        folder,
        [f"jpg/image_{number:05}.jpg" for number in range(1, len(labels) + 1)],
        labels.tolist(),
        _class_names(),
        is_test=labels >= CLASSES // 2,
        official=True,
    )


def _read(file: Path) -> NDArray[np.int64]:
    from scipy.io import loadmat

    try:
        return np.asarray(loadmat(str(file))["labels"]).reshape(-1).astype(np.int64)
    except Exception as error:  # loadmat raises many types of errors on damaged files
        raise UsageError(
            f"flowers102: {file} is not the official label file ({error}); fetch it again"
        ) from error


def _class_names() -> list[str]:
    """Return torchvision's list of names; numbers where an older torchvision has none."""
    from torchvision.datasets import Flowers102

    names = getattr(Flowers102, "classes", None)
    return list(names) if names else [f"flower {number}" for number in range(1, CLASSES + 1)]
