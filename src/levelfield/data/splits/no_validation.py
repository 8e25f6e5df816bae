"""No validation set: choices are made on the test set, as in older papers."""

from __future__ import annotations

from levelfield.core.errors import UsageError
from levelfield.data._dataset import Rows
from levelfield.data.splits import _classes, register
from levelfield.data.splits._plan import Fold, SplitPlan


@register("none")
def no_validation(
    labels: Rows,
    *,
    is_test: _classes.IsTest = None,
    is_validation: _classes.IsTest = None,
    allow_test_feedback: bool = False,
    test_fraction: float | None = None,
    min_images: int = 2,
) -> SplitPlan:
    """One fold that trains on all development classes and validates on the test set. Leaky.

    Most papers before 2020 worked like this; the plan exists to reproduce them. It needs
    ``allow_test_feedback=True``, and every report is marked "leaky".

    Example:
        >>> import numpy as np
        >>> plan = no_validation(np.repeat(np.arange(4), 2), allow_test_feedback=True)
        >>> plan.leaky, plan.folds[0].validation, plan.test
        (True, array([4, 5, 6, 7]), array([4, 5, 6, 7]))
    """
    if not allow_test_feedback:
        raise UsageError(
            'the split plan "none" validates on the test set, so that scores are too high; '
            "set allow_test_feedback: true to use it anyway, or use class_disjoint"
        )
    development, test = _classes.development_and_test(labels, is_test, test_fraction, min_images=min_images)
    return SplitPlan("none", (Fold(_classes.rows_of_classes(labels, development), test),), test, leaky=True)
