"""Official split of the dataset, unchanged."""

from __future__ import annotations

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.data._dataset import Rows
from levelfield.data.splits import _classes, register
from levelfield.data.splits._plan import Fold, SplitPlan


@register("predefined")
def predefined(
    labels: Rows, *, is_test: _classes.IsTest = None, is_validation: _classes.IsTest = None
) -> SplitPlan:
    """One fold of the dataset's official training, validation and test samples.

    The parts may share classes.


    Example:
        >>> marks = np.eye(3, dtype=bool).repeat(2, axis=1)
        >>> plan = predefined(np.array([0, 0, 1, 1, 2, 2]), is_validation=marks[1], is_test=marks[2])
        >>> plan.folds[0].train, plan.folds[0].validation, plan.test
        (array([0, 1]), array([2, 3]), array([4, 5]))
    """
    parts = {"test": is_test, "validation": is_validation}
    for name, marks in parts.items():
        if marks is None or not np.any(marks):
            raise UsageError(
                f'the split plan "predefined" needs {name} samples, but the dataset has none; '
                'use a plan that splits by class, such as "class_disjoint" or "fixed_ratio"'
            )
    test, validation = np.asarray(is_test, dtype=bool), np.asarray(is_validation, dtype=bool)
    both = np.flatnonzero(test & validation)
    if len(both):
        raise UsageError(
            f"{len(both)} samples (such as row {both[0]}) are marked both validation and test; choose one"
        )
    train = ~test & ~validation
    if not train.any():
        raise UsageError("every sample is marked validation or test; mark some as training")
    fold = Fold(train=np.flatnonzero(train), validation=np.flatnonzero(validation))
    return SplitPlan("predefined", (fold,), np.flatnonzero(test))
