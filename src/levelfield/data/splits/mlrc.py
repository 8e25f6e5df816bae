"""Folds behind the published tables of "A Metric Learning Reality Check"."""

from __future__ import annotations

import numpy as np

from levelfield.data._dataset import Rows
from levelfield.data.splits import _classes, register
from levelfield.data.splits._plan import Fold, SplitPlan


@register("mlrc", paper="A Metric Learning Reality Check", year=2020)
def mlrc(
    labels: Rows,
    *,
    is_test: _classes.IsTest = None,
    is_validation: _classes.IsTest = None,
    folds: int = 4,
    min_images: int = 2,
) -> SplitPlan:
    """Older folds of the reality check: fold 0 validates on the last quarter, the others rotate.

    The first half of the classes is for development, whatever the official split. On Stanford Online Products
    one official training class becomes a test class this way. The n development classes form a ring. Fold i
    starts at class int(i n / folds), trains on the first n - int(n / folds) classes and validates on the
    rest. If n is not a multiple of ``folds``, some classes are never used for validation: of the 98 classes
    of Cars, 96 are.

    Example:
        >>> plan = mlrc(np.repeat(np.arange(8), 2), folds=2)
        >>> plan.folds[0].validation, plan.folds[1].validation
        (array([4, 5, 6, 7]), array([0, 1, 2, 3]))
    """
    _classes.check_class_sizes(labels, min_images)
    classes = np.unique(labels)
    development, test = np.split(classes, [len(classes) // 2])
    _classes.check_folds(folds, len(development))
    size = len(development)
    held_out = size // folds
    parts = []
    for fold in range(folds):
        ring = np.roll(development, -(fold * size // folds))
        train, validation = np.split(ring, [size - held_out])
        parts.append(
            Fold(_classes.rows_of_classes(labels, train), _classes.rows_of_classes(labels, validation))
        )
    return SplitPlan("mlrc", tuple(parts), _classes.rows_of_classes(labels, test))
