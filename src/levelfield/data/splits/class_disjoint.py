"""Class-disjoint k-fold cross-validation in class order, as in "A Metric Learning Reality Check"."""

from __future__ import annotations

import numpy as np

from levelfield.data._dataset import Rows
from levelfield.data.splits import _classes, register
from levelfield.data.splits._plan import SplitPlan


@register("class_disjoint", paper="A Metric Learning Reality Check", year=2020)
def class_disjoint(
    labels: Rows,
    *,
    is_test: _classes.IsTest = None,
    is_validation: _classes.IsTest = None,
    folds: int = 4,
    test_fraction: float | None = None,
    min_images: int = 2,
) -> SplitPlan:
    """K folds over the development classes in class order; the last classes are the test set.

    Fold i validates on the i-th of ``folds`` consecutive blocks of classes. Block sizes differ by at most
    one; larger blocks come first. ``test_fraction`` is the fraction of classes, from the end, in the test
    set. It defaults to the official test set, or to 0.5 if there is none.

    Example:
        >>> plan = class_disjoint(np.repeat(np.arange(8), 2), folds=2)
        >>> plan.folds[0].validation, plan.test
        (array([0, 1, 2, 3]), array([ 8,  9, 10, 11, 12, 13, 14, 15]))
    """
    development, test = _classes.development_and_test(labels, is_test, test_fraction, min_images=min_images)
    _classes.check_folds(folds, len(development))
    blocks = np.array_split(development, folds)
    return SplitPlan("class_disjoint", _classes.make_folds(labels, development, blocks), test)
