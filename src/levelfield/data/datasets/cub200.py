"""CUB-200-2011: 200 species of birds."""

from __future__ import annotations

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.data import register
from levelfield.data._dataset import Dataset, Download
from levelfield.data._listing import class_ids, find_root, from_files, parse_integer, read_table


@register(
    "cub200",
    paper="The Caltech-UCSD Birds-200-2011 Dataset",
    year=2011,
    license="Non-commercial research and education only; the photographers keep the rights to their images",
    source="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    citation="C. Wah, S. Branson, P. Welinder, P. Perona, S. Belongie: The Caltech-UCSD Birds-200-2011 "
    "Dataset. Technical Report CNS-TR-2011-001, California Institute of Technology, 2011.",
    downloads=(
        Download(
            urls=("https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz?download=1",),
            file="CUB_200_2011.tgz",
            md5="97eceeb196236b17998738112f37df78",
        ),
    ),
)
def cub200(*, root: str = "data") -> Dataset:
    """CUB-200-2011: 11,788 images of 200 species of birds.

    Classes 1-100 are for training (5,864 images), 101-200 for the test (5,924).

    ``root`` is the folder ``CUB_200_2011`` or its parent. The file ``train_test_split.txt`` is for
    classification and not used; retrieval papers split by class.
    """
    folder = find_root("cub200", root, folder="CUB_200_2011", marker="images.txt")
    class_file, label_file = folder / "classes.txt", folder / "image_class_labels.txt"
    images = dict(read_table(folder / "images.txt", 2))
    labels = {image: parse_integer(label, label_file) for image, label in read_table(label_file, 2)}
    names = {parse_integer(number, class_file): name for number, name in read_table(class_file, 2)}
    if images.keys() != labels.keys() or not set(labels.values()) <= names.keys():
        raise UsageError(
            f"cub200: images.txt, image_class_labels.txt and classes.txt in {folder} are inconsistent; "
            "fetch the dataset again"
        )
    order = sorted(names)
    ids = class_ids([labels[image] for image in images], order)
    return from_files(
        "cub200",
        folder / "images",
        list(images.values()),
        ids,
        [names[number] for number in order],
        is_test=np.array(ids) >= len(order) // 2,
        official=True,
    )
