"""What a split plan is: folds of training and validation rows, and the test rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelfield.data._dataset import Rows


@dataclass(frozen=True)
class Fold:
    """The rows (int64, sorted) that one run trains on, and those that score it while it trains."""

    train: Rows
    validation: Rows


@dataclass(frozen=True)
class SplitPlan:
    """Which rows of a dataset are for training, validation and test.

    Attributes:
        name: The registered name of the plan.
        folds: One or more pairs of training and validation rows.
        test: The test rows, the same for every fold.
        leaky: Whether the test rows take part in choosing a model; every report says so.

    Example:
        >>> rows = np.arange(6)
        >>> SplitPlan("toy", (Fold(rows[:2], rows[2:4]),), rows[4:]).development
        array([0, 1, 2, 3])
    """

    name: str
    folds: tuple[Fold, ...]
    test: Rows
    leaky: bool = False

    @property
    def development(self) -> Rows:
        """Every row of the folds that is not a test row, sorted."""
        rows = np.unique(
            np.concatenate([part for fold in self.folds for part in (fold.train, fold.validation)])
        )
        return np.setdiff1d(rows, self.test, assume_unique=True)

    def describe(self, labels: Rows | None = None) -> str:
        """The sizes in one line; with the dataset's labels (N,) also the numbers of classes.

        Example:
            >>> rows = np.arange(6)
            >>> plan = SplitPlan("toy", (Fold(rows[:2], rows[2:4]),), rows[4:])
            >>> plan.describe(np.array([0, 0, 1, 1, 2, 2]))
            'toy, 1 fold: train 2 images of 1 class, validation 2 images of 1 class, test 2 images of 1 class'
        """
        folds = f"{len(self.folds)} fold" + ("s" if len(self.folds) > 1 else "")
        sizes = ", ".join(
            f"{name} {_size(parts, labels)}"
            for name, parts in (
                ("train", [fold.train for fold in self.folds]),
                ("validation", [fold.validation for fold in self.folds]),
                ("test", [self.test]),
            )
        )
        warning = " (leaky: validates on the test set)" if self.leaky else ""
        return f"{self.name}, {folds}: {sizes}{warning}"


def _size(parts: list[Rows], labels: Rows | None) -> str:
    size = _count([len(part) for part in parts], "image", "images")
    if labels is None:
        return size
    return f"{size} of {_count([len(np.unique(labels[part])) for part in parts], 'class', 'classes')}"


def _count(numbers: list[int], one: str, many: str) -> str:
    low, high = min(numbers), max(numbers)
    shown = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{shown} {one if high == 1 else many}"
