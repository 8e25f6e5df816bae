"""In-Shop Clothes Retrieval: clothing items, with separate queries and gallery."""

from __future__ import annotations

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.data import register
from levelfield.data._dataset import GALLERY, QUERY, Dataset
from levelfield.data._listing import class_ids, find_root, from_files, read_table

_ROLES = {"train": 0, "query": QUERY, "gallery": GALLERY}


@register(
    "inshop",
    paper="DeepFashion: Powering Robust Clothes Recognition and Retrieval with Rich Annotations",
    year=2016,
    license="Non-commercial research only, after signing the DeepFashion agreement",
    images_may_be_shown=False,  # the agreement forbids publishing any part of the images
    source="https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html",
    citation="Z. Liu, P. Luo, S. Qiu, X. Wang, X. Tang: DeepFashion: Powering Robust Clothes Recognition and "
    "Retrieval with Rich Annotations. CVPR 2016.",
    manual_download="its owners require a signed agreement and publish no checksums: get img.zip and "
    "list_eval_partition.txt from the source, unpack the images to ROOT/inshop/img and put the list into "
    "ROOT/inshop/Eval",
)
def inshop(*, root: str = "data") -> Dataset:
    """In-Shop Clothes Retrieval: 52,712 images of 7,982 clothing items.

    3,997 items are for training (25,882 images), 3,985 for the test (14,218 queries, 12,612 in the gallery).

    ``root`` is the folder with ``img`` and ``Eval/list_eval_partition.txt`` (or the list itself), or its
    parent, which holds it as ``inshop``.
    """
    for marker in ("Eval/list_eval_partition.txt", "list_eval_partition.txt"):
        try:
            folder = find_root("inshop", root, folder="inshop", marker=marker)
        except UsageError as error:
            missing = error
        else:
            break
    else:
        raise missing
    file = folder / marker
    table = read_table(file, 3, skip=2)
    unknown = {status for *_, status in table} - _ROLES.keys()
    if unknown:
        raise UsageError(f'{file}: unknown evaluation status "{min(unknown)}"; fetch it again')
    items = [item for _, item, _ in table]
    order = sorted(set(items))
    roles = np.array([_ROLES[status] for *_, status in table], dtype=np.int8)
    return from_files(
        "inshop",
        folder,
        [path for path, *_ in table],
        class_ids(items, order),
        order,
        is_test=roles > 0,
        roles=roles,
        official=True,
    )
