"""Class-disjoint k-fold cross-validation over shuffled classes."""

from __future__ import annotations

import numpy as np

from levelfield.core.seeds import numpy_generator
from levelfield.data._dataset import Rows
from levelfield.data.splits import _classes, register
from levelfield.data.splits._plan import SplitPlan


@register("shuffled_classes", paper="Metric Learning: A Deep Dive", year=2020)
def shuffled_classes(
    labels: Rows,
    *,
    is_test: _classes.IsTest = None,
    is_validation: _classes.IsTest = None,
    folds: int = 10,
    test_fraction: float | None = None,
    min_images: int = 2,
    seed: int = 0,
) -> SplitPlan:
    """K folds over the development classes in a seeded random order.

    Adjacent classes are often similar (birds of one family, letters of one alphabet). Shuffling makes the
    folds similar to each other instead. The test classes are not shuffled: they are the last ones, as in
    "class_disjoint".

    Example:
        >>> plan = shuffled_classes(np.repeat(np.arange(8), 2), folds=2)
        >>> len(plan.folds), plan.test
        (2, array([ 8,  9, 10, 11, 12, 13, 14, 15]))
    """
    development, test = _classes.development_and_test(labels, is_test, test_fraction, min_images=min_images)
    _classes.check_folds(folds, len(development))
    order = numpy_generator("split plan", "shuffled_classes", seed).permutation(development)
    blocks = np.array_split(order, folds)
    return SplitPlan("shuffled_classes", _classes.make_folds(labels, development, blocks), test)
