"""The development view: a dataset without its test images.

Training, search and selection see nothing else. The view holds the development images and no reference to
the full dataset; the test set is opened in ``protocol/guard.py`` alone. This keeps code that is handed a view
from reading a test image by mistake. It is no lock: code that means to can load the dataset itself. Sets of
another library (``hf:``, ``torchvision:``) keep that library's object, which knows all images, out of sight
but within reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield import data
from levelfield.data import store, transforms
from levelfield.data._dataset import GALLERY, QUERY, Dataset, Rows
from levelfield.data.splits import Fold, SplitPlan, create


@dataclass(frozen=True)
class DevelopmentView:
    """Training and validation images; ``folds`` hold row numbers into ``dataset``.

    Attributes:
        dataset: The development samples only.
        folds: The plan's folds, renumbered.
        fingerprint: Of the whole dataset.
        description: The plan's sizes in one line.
        leaky: Whether validation uses test samples (the plan "none"), which every report must say.
        test_images: How many images were left out for the test.
    """

    dataset: Dataset
    folds: tuple[Fold, ...]
    fingerprint: str
    description: str
    leaky: bool
    test_images: int


def open_development(
    name: str,
    *,
    dataset_options: dict[str, Any],
    split: str,
    split_options: dict[str, Any],
    transform: str = "none",
    transform_options: dict[str, Any] | None = None,
) -> DevelopmentView:
    """Load a dataset, split it, and forget its test images."""
    dataset = open_dataset(name, dataset_options, transform=transform, transform_options=transform_options)
    return development_view(dataset, split_dataset(dataset, split, split_options))


def open_dataset(
    name: str,
    options: dict[str, Any],
    *,
    transform: str = "none",
    transform_options: dict[str, Any] | None = None,
) -> Dataset:
    """A dataset, read from its prepared store if there is one that serves the transform."""
    chosen = [
        transforms.create(transform, train=train, **(transform_options or {})) for train in (True, False)
    ]
    return store.serve(data.load(name, **options), *chosen)


def split_dataset(dataset: Dataset, split: str, options: dict[str, Any]) -> SplitPlan:
    """The plan called ``split`` for a dataset."""
    official = {"is_test": dataset.is_test, "is_validation": dataset.is_validation}
    return create(split, dataset.labels, **official, **options)


def _queries_in_words(dataset: Dataset, plan: SplitPlan) -> str:
    """Which of the test images are asked and which are searched, where the dataset tells them apart."""
    if dataset.roles is None:
        return ""
    queries, gallery = (int(((dataset.roles[plan.test] & role) > 0).sum()) for role in (QUERY, GALLERY))
    return f"; of the test images {queries:,} are queries and {gallery:,} are searched"


def development_view(dataset: Dataset, plan: SplitPlan) -> DevelopmentView:
    """The part of ``dataset`` that ``plan`` trains and validates on."""
    folds_rows = np.unique(np.concatenate([part for f in plan.folds for part in (f.train, f.validation)]))
    rows = folds_rows if plan.leaky else plan.development

    def renumber(old: Rows) -> Rows:
        return np.searchsorted(rows, old).astype(np.int64)

    return DevelopmentView(
        dataset=dataset.select(rows),
        folds=tuple(Fold(renumber(fold.train), renumber(fold.validation)) for fold in plan.folds),
        fingerprint=dataset.fingerprint,
        description=plan.describe(dataset.labels) + _queries_in_words(dataset, plan),
        leaky=plan.leaky,
        test_images=len(plan.test),
    )
