"""Split plans: assign classes or samples to training, validation and test."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UsageError
from levelfield.core.registry import Card, Registry
from levelfield.data._dataset import Rows
from levelfield.data.splits._plan import Fold, SplitPlan, check_plan

__all__ = ["Fold", "SplitPlan", "create", "register", "registry"]

registry = Registry("split plan", Card, package=__name__, supplied=("labels", "is_test", "is_validation"))
register = registry.register


def create(
    name: str,
    /,
    labels: Rows,
    *,
    is_test: npt.NDArray[np.bool_] | None = None,
    is_validation: npt.NDArray[np.bool_] | None = None,
    **options: Any,
) -> SplitPlan:
    """Return the split plan called ``name`` for samples with these ``labels``.

    Args:
        name: Registered name of a plan, such as "class_disjoint".
        labels: int64 array (N,), class ids in class order.
        is_test: bool array (N,), official test samples; None if there are none. Class-based plans use them
            unless ``test_fraction`` is given.
        is_validation: bool array (N,), official validation samples; only "predefined" uses them.
        **options: Options of the plan.

    Raises:
        UsageError: An option is invalid, or the parts of the plan overlap; see ``check_plan``.

    Example:
        >>> plan = create("class_disjoint", np.repeat(np.arange(16), 2), folds=4)
        >>> print(plan.describe())
        class_disjoint, 4 folds: train 12 images, validation 4 images, test 16 images
    """
    labels = np.asarray(labels, dtype=np.int64)
    if labels.ndim != 1 or not len(labels):
        raise UsageError(f"labels have shape {labels.shape}; give a list of class ids, one per sample")
    official = {"is_test": is_test, "is_validation": is_validation}
    for key, given in official.items():
        if given is not None and np.shape(given) != labels.shape:
            raise UsageError(
                f"{key} has shape {np.shape(given)} but labels have {labels.shape}; give one value per sample"
            )
    plan: SplitPlan = registry.create(name, labels, **official, **options)
    check_plan(plan, len(labels))
    return plan
