"""Cars196: 196 models of cars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.data import register
from levelfield.data._dataset import Dataset, Download
from levelfield.data._listing import find_root, from_files

_STANFORD = "http://ai.stanford.edu/~jkrause/car196"


@register(
    "cars196",
    paper="3D Object Representations for Fine-Grained Categorization",
    year=2013,
    license="Research only; the images were collected from the web and belong to their owners",
    source="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
    citation="J. Krause, M. Stark, J. Deng, L. Fei-Fei: 3D Object Representations for Fine-Grained "
    "Categorization. IEEE Workshop on 3D Representation and Recognition (3dRR), 2013.",
    downloads=(
        Download(
            urls=(f"{_STANFORD}/car_ims.tgz",),
            file="car_ims.tgz",
            md5="d5c8f0aa497503f355e17dc7886c3f14",
            into="cars196",
        ),
        Download(
            urls=(f"{_STANFORD}/cars_annos.mat",),
            file="cars196/cars_annos.mat",
            md5="b407c6086d669747186bd1d764ff9dbc",
        ),
    ),
    manual_download="the official address has been offline at times: put copies of car_ims.tgz into ROOT and "
    "of cars_annos.mat into ROOT/cars196, and fetch again; their checksums are verified",
)
def cars196(*, root: str = "data") -> Dataset:
    """Cars196: 16,185 images of 196 models of cars.

    Classes 1-98 are for training (8,054 images), 99-196 for the test (8,131).

    ``root`` is the folder with ``cars_annos.mat`` and ``car_ims``, or its parent, which holds it as
    ``cars196``. The test flag of the annotations is for classification and not used; retrieval papers split
    by class.
    """
    folder = find_root("cars196", root, folder="cars196", marker="cars_annos.mat")
    annotations, names = _read(folder / "cars_annos.mat")
    paths = [str(entry["relative_im_path"][0]) for entry in annotations]
    labels = np.array([int(entry["class"][0, 0]) - 1 for entry in annotations], dtype=np.int64)
    if labels.min() < 0 or labels.max() >= len(names):
        raise UsageError(
            f"cars196: cars_annos.mat in {folder} refers to classes that it does not list; fetch it again"
        )
    return from_files(
        "cars196", folder, paths, labels.tolist(), names, is_test=labels >= len(names) // 2, official=True
    )


def _read(file: Path) -> tuple[Any, list[str]]:
    from scipy.io import loadmat

    try:
        content = loadmat(str(file))
        return content["annotations"][0], [str(name[0]) for name in content["class_names"][0]]
    except Exception as error:  # loadmat raises many types of errors on damaged files
        raise UsageError(
            f"cars196: {file} is not the official annotation file ({error}); fetch it again"
        ) from error
