"""Stanford Online Products: 22,634 products of an online shop."""

from __future__ import annotations

import numpy as np

from levelfield.data import register
from levelfield.data._dataset import Dataset, Download
from levelfield.data._listing import class_ids, find_root, from_files, parse_integer, read_table


@register(
    "sop",
    paper="Deep Metric Learning via Lifted Structured Feature Embedding",
    year=2016,
    license="Research only; the images are from eBay sellers and belong to their owners",
    source="https://cvgl.stanford.edu/projects/lifted_struct/",
    citation="H. Oh Song, Y. Xiang, S. Jegelka, S. Savarese: Deep Metric Learning via Lifted Structured "
    "Feature Embedding. CVPR 2016.",
    downloads=(
        Download(
            urls=(
                "https://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",
                "http://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",
            ),
            file="Stanford_Online_Products.zip",
            md5="7f73d41a2f44250d4779881525aea32e",
        ),
    ),
)
def sop(*, root: str = "data") -> Dataset:
    """Stanford Online Products: 120,053 images of 22,634 products of an online shop.

    The official split files have 11,318 training products (59,551 images) and 11,316 test products (60,502).
    The reality check split the classes in half instead, 11,317 each, so that one official training class is
    in its test set. The split plan "mlrc" does the same, as does "class_disjoint" with ``test_fraction=0.5``.
    """
    folder = find_root("sop", root, folder="Stanford_Online_Products", marker="Ebay_train.txt")
    paths: list[str] = []
    products: list[int] = []
    sizes = []
    for part in ("train", "test"):
        file = folder / f"Ebay_{part}.txt"
        table = read_table(file, 4, skip=1)
        products += [parse_integer(product, file) for _, product, _, _ in table]
        paths += [path for *_, path in table]
        sizes.append(len(table))
    order = sorted(set(products))
    is_test = np.arange(len(paths)) >= sizes[0]
    return from_files(
        "sop",
        folder,
        paths,
        class_ids(products, order),
        [str(product) for product in order],
        is_test=is_test,
        official=True,
    )
