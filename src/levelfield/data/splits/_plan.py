"""Split plan types: folds of training and validation rows, and test rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.data._dataset import Rows


@dataclass(frozen=True)
class Fold:
    """Training rows and validation rows of one run (int64, sorted)."""

    train: Rows
    validation: Rows


@dataclass(frozen=True)
class SplitPlan:
    """Assignment of rows to training, validation and test.

    Attributes:
        name: Registered name of the plan.
        folds: One or more pairs of training and validation rows.
        test: Test rows, the same for every fold.
        leaky: Whether test rows are used for validation; every report states it.

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
        """Sorted rows of all folds, without test rows."""
        rows = np.unique(
            np.concatenate([part for fold in self.folds for part in (fold.train, fold.validation)])
        )
        return np.setdiff1d(rows, self.test, assume_unique=True)

    def describe(self, labels: Rows | None = None) -> str:
        """Return the sizes as one line of text; with ``labels`` (N,) it includes the numbers of classes.

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


def check_plan(plan: SplitPlan, num_rows: int) -> None:
    """Raise UsageError if training, validation and test of a plan for ``num_rows`` samples overlap.

    A leaky plan may validate on test rows. No plan may train on them.

    Example:
        >>> rows = np.arange(6)
        >>> check_plan(SplitPlan("toy", (Fold(rows[:3], rows[2:4]),), rows[4:]), 6)
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: split plan "toy": fold 0 has 1 row in both training and \
validation, such as row 2; give each row to one of them
    """
    if not isinstance(plan, SplitPlan) or not plan.folds:
        raise UsageError(
            "the split plan did not return a SplitPlan with at least one Fold; see levelfield.data.splits"
        )
    _check_rows(plan.name, "the test set", plan.test, num_rows)
    for number, fold in enumerate(plan.folds):
        parts = {"training": fold.train, "validation": fold.validation}
        for part, rows in parts.items():
            _check_rows(plan.name, f"{part} of fold {number}", rows, num_rows)
        _check_disjoint(plan.name, number, parts)
        _check_disjoint(plan.name, number, {"training": fold.train, "the test set": plan.test})
        if not plan.leaky:
            _check_disjoint(plan.name, number, {"validation": fold.validation, "the test set": plan.test})


def _check_rows(plan: str, part: str, rows: Rows, num_rows: int) -> None:
    if not isinstance(rows, np.ndarray) or rows.dtype != np.int64 or rows.ndim != 1:
        kind = f"{rows.dtype} of shape {rows.shape}" if isinstance(rows, np.ndarray) else type(rows).__name__
        raise UsageError(f'split plan "{plan}": {part} is {kind}; it must be a list of row numbers, int64')
    if len(rows) == 0:
        raise UsageError(f'split plan "{plan}": {part} is empty; choose other options, or another plan')
    if rows.min() < 0 or rows.max() >= num_rows:
        wrong = rows[(rows < 0) | (rows >= num_rows)][0]
        raise UsageError(f'split plan "{plan}": {part} contains row {wrong}; valid are 0 to {num_rows - 1}')
    if len(np.unique(rows)) != len(rows):
        raise UsageError(f'split plan "{plan}": {part} contains a row twice; list each row once')


def _check_disjoint(plan: str, fold: int, parts: dict[str, Rows]) -> None:
    (one, rows), (other, other_rows) = parts.items()
    shared = np.intersect1d(rows, other_rows)
    if len(shared):
        raise UsageError(
            f'split plan "{plan}": fold {fold} has {_count([len(shared)], "row", "rows")} in both {one} and '
            f"{other}, such as row {shared[0]}; give each row to one of them"
        )


def _size(parts: list[Rows], labels: Rows | None) -> str:
    size = _count([len(part) for part in parts], "image", "images")
    if labels is None:
        return size
    return f"{size} of {_count([len(np.unique(labels[part])) for part in parts], 'class', 'classes')}"


def _count(numbers: list[int], one: str, many: str) -> str:
    low, high = min(numbers), max(numbers)
    shown = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{shown} {one if high == 1 else many}"
