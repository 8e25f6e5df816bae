"""One fold with a fixed ratio of training to validation classes."""

from __future__ import annotations

from levelfield.core.errors import UsageError
from levelfield.core.seeds import numpy_generator
from levelfield.data._dataset import Rows
from levelfield.data.splits import _classes, register
from levelfield.data.splits._plan import SplitPlan


@register("fixed_ratio", paper="Metric Learning: A Deep Dive", year=2020)
def fixed_ratio(
    labels: Rows,
    *,
    is_test: _classes.IsTest = None,
    is_validation: _classes.IsTest = None,
    train_fraction: float = 0.8,
    test_fraction: float | None = None,
    min_images: int = 2,
    seed: int | None = None,
) -> SplitPlan:
    """One fold: the first ``train_fraction`` of the development classes train, the rest validate.

    A ``train_fraction`` of 0.7 is 70/30, 0.95 is 95/5. With a ``seed`` the development classes are shuffled
    first.

    Example:
        >>> import numpy as np
        >>> plan = fixed_ratio(np.repeat(np.arange(8), 2), train_fraction=0.75)
        >>> plan.folds[0].validation
        array([6, 7])
    """
    development, test = _classes.development_and_test(labels, is_test, test_fraction, min_images=min_images)
    _classes.check_fraction("train_fraction", train_fraction)
    if seed is not None:
        development = numpy_generator("split plan", "fixed_ratio", seed).permutation(development)
    size = round(train_fraction * len(development))
    if not 0 < size < len(development):
        raise UsageError(
            f"train_fraction={train_fraction:g} of {len(development)} development classes leaves no class to "
            f"{'train' if size == 0 else 'validate'} on; choose another train_fraction"
        )
    return SplitPlan("fixed_ratio", _classes.make_folds(labels, development, [development[size:]]), test)
