"""The development view: a dataset without its test images.

Training, search and selection see nothing else. The view holds no reference to the full dataset, so no
code that is handed one can reach a test image; the test set is opened in ``protocol/guard.py`` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield import data
from levelfield.data._dataset import Dataset, Rows
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
    """

    dataset: Dataset
    folds: tuple[Fold, ...]
    fingerprint: str
    description: str
    leaky: bool


def open_development(
    name: str, *, split: str, dataset_options: dict[str, Any], split_options: dict[str, Any]
) -> DevelopmentView:
    """Load a dataset, split it, and forget its test images."""
    dataset = data.load(name, **dataset_options)
    return development_view(dataset, create(split, dataset.labels, is_test=dataset.is_test, **split_options))


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
        description=plan.describe(dataset.labels),
        leaky=plan.leaky,
    )
