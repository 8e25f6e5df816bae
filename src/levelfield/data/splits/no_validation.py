"""The old habit: no validation set, the test set itself guides every choice."""

from __future__ import annotations

from levelfield.data._dataset import Rows
from levelfield.data.splits import _classes, register
from levelfield.data.splits._plan import Fold, SplitPlan
from levelfield.errors import UsageError


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
    """No validation set: training uses every development class, and is watched on the test set. Leaky.

    Most papers before 2020 worked like this, so it is here to reproduce them; ``allow_test_feedback=True``
    says that this is what you want, and every report is stamped "leaky".

    Example:
        >>> import numpy as np
        >>> plan = no_validation(np.repeat(np.arange(4), 2), allow_test_feedback=True)
        >>> plan.leaky, plan.folds[0].validation, plan.test
        (True, array([4, 5, 6, 7]), array([4, 5, 6, 7]))
    """
    if not allow_test_feedback:
        raise UsageError(
            'the split plan "none" watches training on the test set, which makes every score too good; '
            "set allow_test_feedback: true to do so all the same, or use class_disjoint"
        )
    development, test = _classes.development_and_test(labels, is_test, test_fraction, min_images=min_images)
    return SplitPlan("none", (Fold(_classes.rows_of(labels, development), test),), test, leaky=True)
