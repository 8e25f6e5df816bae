"""Effect of test feedback: the folds of another plan, validated on the test set."""

from __future__ import annotations

from typing import Any

from levelfield.core.errors import UsageError
from levelfield.data._dataset import Rows
from levelfield.data.splits import _classes, register, registry
from levelfield.data.splits._plan import Fold, SplitPlan


@register("test_feedback")
def with_test_feedback(
    labels: Rows,
    *,
    is_test: _classes.IsTest = None,
    is_validation: _classes.IsTest = None,
    plan: str = "class_disjoint",
    allow_test_feedback: bool = False,
    **options: Any,
) -> SplitPlan:
    """Folds of ``plan`` (with its ``options``), each validated on the test set instead. Leaky.

    Training uses exactly the images that ``plan`` trains on. So a difference between the two plans is due to
    test feedback alone. (The plan "none" trains on more images.)

    Example:
        >>> import numpy as np
        >>> labels = np.repeat(np.arange(4), 2)
        >>> leaky = with_test_feedback(labels, folds=2, allow_test_feedback=True)
        >>> leaky.folds[0].train, leaky.folds[0].validation, leaky.test
        (array([2, 3]), array([4, 5, 6, 7]), array([4, 5, 6, 7]))
    """
    if not allow_test_feedback:
        raise UsageError(
            'the split plan "test_feedback" validates on the test set, so that scores are too high; '
            f"set allow_test_feedback: true to use it anyway, or use {plan}"
        )
    official = {"is_test": is_test, "is_validation": is_validation}
    base: SplitPlan = registry.create(plan, labels, **official, **options)
    folds = tuple(Fold(fold.train, base.test) for fold in base.folds)
    return SplitPlan("test_feedback", folds, base.test, leaky=True)
