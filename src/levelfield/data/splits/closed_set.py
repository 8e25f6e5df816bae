"""Closed-set split: every class is in training, validation and test."""

from __future__ import annotations

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.core.seeds import numpy_generator
from levelfield.data._dataset import Rows
from levelfield.data.splits import _classes, register
from levelfield.data.splits._plan import Fold, SplitPlan


@register("closed_set")
def closed_set(
    labels: Rows,
    *,
    is_test: _classes.IsTest = None,
    is_validation: _classes.IsTest = None,
    folds: int = 4,
    test_fraction: float = 0.5,
    seed: int = 0,
) -> SplitPlan:
    """K folds over samples, stratified by class: all parts contain the same classes.

    A seeded random ``test_fraction`` of each class is the test set. The other images are assigned to the
    folds in turn. If the dataset has official test samples, they are the test set instead.

    Example:
        >>> plan = closed_set(np.repeat(np.arange(2), 8), folds=2)
        >>> print(plan.describe())
        closed_set, 2 folds: train 4 images, validation 4 images, test 8 images
    """
    if folds < 2:
        raise UsageError(f"folds must be at least 2, got {folds}")
    _classes.check_fraction("test_fraction", test_fraction)
    generator = numpy_generator("split plan", "closed_set", seed)
    fold_of = np.full(len(labels), -1, dtype=np.int64)  # -1: test
    assigned = 0
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        if is_test is None:
            rows = generator.permutation(rows)
            development = rows[round(test_fraction * len(rows)) :]
        else:
            development = generator.permutation(rows[~np.asarray(is_test, dtype=bool)[rows]])
        _check_class(int(label), len(rows), len(development), folds, official=is_test is not None)
        # Continue where the last class ended, so that the folds have equal sizes.
        fold_of[development] = (assigned + np.arange(len(development))) % folds
        assigned += len(development)
    parts = tuple(
        Fold(
            train=np.flatnonzero((fold_of >= 0) & (fold_of != fold)),
            validation=np.flatnonzero(fold_of == fold),
        )
        for fold in range(folds)
    )
    return SplitPlan("closed_set", parts, np.flatnonzero(fold_of == -1))


def _check_class(label: int, images: int, development: int, folds: int, *, official: bool) -> None:
    """Raise UsageError unless each part gets at least two images of the class, as retrieval needs."""
    if development // folds < 2 or (not official and images - development < 2):
        raise UsageError(
            f"class {label} has {images} images, {development} for {folds} folds and {images - development} "
            "for the test; each part needs two: use fewer folds, another test_fraction, or remove the class"
        )
