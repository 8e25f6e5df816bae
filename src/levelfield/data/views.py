"""Development view: a dataset without its test images.

Training, search and selection use only this view. It holds no reference to the full dataset. Only
``protocol/guard.py`` opens the test set. This prevents reading a test image by mistake; it is not access
control, since any code can load the dataset itself. Datasets of other libraries (``hf:``, ``torchvision:``)
keep a private reference to the library's object, which contains all images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield import data
from levelfield.core.errors import UsageError
from levelfield.data import store, transforms
from levelfield.data._dataset import GALLERY, QUERY, Dataset, Rows
from levelfield.data.splits import Fold, SplitPlan, create
from levelfield.data.splits._classes import SmallClassesError


@dataclass(frozen=True)
class DevelopmentView:
    """Training and validation images, with folds.

    Attributes:
        dataset: Development samples only.
        folds: Folds of the split plan; their rows are row numbers of ``dataset``.
        fingerprint: Fingerprint of the whole dataset.
        description: Sizes of the split plan, in one line.
        leaky: Whether validation uses test samples; every report states it.
        test_images: Number of test images, which are left out.
        content: Digest of the content of all images of the whole dataset; empty if it is not known.
        official: Whether the dataset is a published list of files.
        shared_images: Pairs of names (development image, test image) with the same content.
    """

    dataset: Dataset
    folds: tuple[Fold, ...]
    fingerprint: str
    description: str
    leaky: bool
    test_images: int
    content: str = ""
    official: bool = False
    shared_images: tuple[tuple[str, str], ...] = ()


def open_development_view(
    name: str,
    *,
    dataset_options: dict[str, Any],
    split: str,
    split_options: dict[str, Any],
    transform: str = "none",
    transform_options: dict[str, Any] | None = None,
) -> DevelopmentView:
    """Load a dataset, split it, and return its development view."""
    dataset = open_dataset(name, dataset_options, transform=transform, transform_options=transform_options)
    return development_view(dataset, split_dataset(dataset, split, split_options))


def open_dataset(
    name: str,
    options: dict[str, Any],
    *,
    transform: str = "none",
    transform_options: dict[str, Any] | None = None,
) -> Dataset:
    """Return a dataset, read from a prepared store if one matches the transform."""
    chosen = [
        transforms.create(transform, train=train, **(transform_options or {})) for train in (True, False)
    ]
    return store.use_store(data.load(name, **options), *chosen)


def split_dataset(dataset: Dataset, split: str, options: dict[str, Any]) -> SplitPlan:
    """Return the split plan called ``split`` for a dataset."""
    fraction = options.get("test_fraction")
    if dataset.relevant is not None and fraction is not None:
        raise UsageError(
            f"{dataset.name} lists what is relevant to its test queries, so test_fraction={fraction:g} "
            "cannot cut another test set; set split.test_fraction=null"
        )
    if dataset.is_test is not None and dataset.is_test.all() and fraction is None:
        raise UsageError(
            f"{dataset.name} has test images only; for an experiment give it images to train on "
            "(dataset.train), or score models with `levelfield models`"
        )
    official = {"is_test": dataset.is_test, "is_validation": dataset.is_validation}
    try:
        return create(split, dataset.labels, **official, **options)
    except SmallClassesError as error:  # a split plan knows the ids of the classes only
        raise error.with_names(dataset.class_names) from None


def _describe_queries(dataset: Dataset, plan: SplitPlan) -> str:
    """Return the numbers of queries and gallery images as text; empty if the dataset has no roles."""
    if dataset.roles is None:
        return ""
    queries, gallery = (int(((dataset.roles[plan.test] & role) > 0).sum()) for role in (QUERY, GALLERY))
    return f"; of the test images {queries:,} are queries and {gallery:,} are searched"


def find_shared_images(dataset: Dataset, one: Rows, other: Rows) -> tuple[tuple[str, str], ...]:
    """Return the names of images in rows ``one`` with the same content as an image in rows ``other``."""
    if dataset.digests is None:
        return ()
    others: dict[bytes, int] = {}
    for row in other.tolist():
        others.setdefault(dataset.digests[row].tobytes(), row)
    paths = getattr(dataset.images, "paths", None)

    def name(row: int) -> str:
        return str(paths[row]) if paths is not None else f"{dataset.name}:{row}"

    return tuple(
        (name(row), name(others[found]))
        for row in one.tolist()
        if (found := dataset.digests[row].tobytes()) in others
    )


def development_view(dataset: Dataset, plan: SplitPlan) -> DevelopmentView:
    """Return the part of ``dataset`` that ``plan`` trains and validates on."""
    folds_rows = np.unique(np.concatenate([part for f in plan.folds for part in (f.train, f.validation)]))
    rows = folds_rows if plan.leaky else plan.development

    def renumber(old: Rows) -> Rows:
        return np.searchsorted(rows, old).astype(np.int64)

    return DevelopmentView(
        dataset=dataset.select(rows),
        folds=tuple(Fold(renumber(fold.train), renumber(fold.validation)) for fold in plan.folds),
        fingerprint=dataset.fingerprint,
        description=plan.describe(dataset.labels) + _describe_queries(dataset, plan),
        leaky=plan.leaky,
        test_images=len(plan.test),
        content=dataset.content,
        official=dataset.official,
        shared_images=() if plan.leaky else find_shared_images(dataset, rows, plan.test),
    )
