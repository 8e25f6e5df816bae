"""Shared steps of class-based split plans: separate the test classes, check options, make folds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UsageError
from levelfield.data._dataset import Rows
from levelfield.data.folder_scan import shown_names
from levelfield.data.splits._plan import Fold

IsTest = npt.NDArray[np.bool_] | None
DEFAULT_TEST_FRACTION = 0.5


def development_and_test(
    labels: Rows, is_test: IsTest, test_fraction: float | None, *, min_images: int = 2
) -> tuple[Rows, Rows]:
    """Return the development classes, in class order, and the test rows.

    The test set is the official one if the dataset has one and ``test_fraction`` is not given. Else it is the
    last ``test_fraction`` of the classes, half of them by default.
    """
    if test_fraction is None and is_test is not None:
        return _use_official_split(labels, np.asarray(is_test, dtype=bool), min_images)
    fraction = DEFAULT_TEST_FRACTION if test_fraction is None else test_fraction
    check_fraction("test_fraction", fraction)
    classes = np.unique(labels)
    check_class_sizes(labels, min_images)
    size = int(fraction * len(classes) + 1e-9)  # 0.29 * 100 is slightly below 29
    if size == 0:
        raise UsageError(
            f"test_fraction={fraction:g} of {len(classes)} classes leaves no test class; increase it"
        )
    development, test = classes[: len(classes) - size], classes[len(classes) - size :]
    return development, rows_of_classes(labels, test)


def _use_official_split(labels: Rows, is_test: npt.NDArray[np.bool_], min_images: int) -> tuple[Rows, Rows]:
    if is_test.all() or not is_test.any():
        raise UsageError(
            f"the official split marks {int(is_test.sum())} of {len(labels)} samples as test; "
            "give test_fraction to cut the classes instead"
        )
    development, test = np.unique(labels[~is_test]), np.unique(labels[is_test])
    shared = np.intersect1d(development, test)
    if len(shared):
        raise UsageError(
            f"{len(shared)} classes (such as {shared[0]}) are in both the official training and test set; "
            'give test_fraction to cut the classes instead, or use the plan "predefined" or "closed_set"'
        )
    check_class_sizes(labels[~is_test], min_images)
    return development, np.flatnonzero(is_test)


class SmallClassesError(UsageError):
    """Raised for classes with too few images.

    Args:
        small: Ids of these classes.
        of: Number of all classes.
        min_images: Fewest images that a class must have.
        names: Names of the small classes; without them the message has their ids.
    """

    def __init__(self, small: list[int], *, of: int, min_images: int, names: Sequence[str] = ()) -> None:
        self.small, self.of, self.min_images = small, of, min_images
        shown = shown_names(names or [str(number) for number in small])
        have = "classes has" if len(small) == 1 else "classes have"
        super().__init__(
            f"{len(small)} of {of} {have} fewer than {min_images} images ({shown}); retrieval needs a second "
            "image of a class: add images, remove these classes, or set split.min_images=1"
        )

    def with_names(self, class_names: Sequence[str]) -> SmallClassesError:
        """Return the same error with the names of the classes."""
        names = [class_names[number] for number in self.small]
        return SmallClassesError(self.small, of=self.of, min_images=self.min_images, names=names)


def check_class_sizes(labels: Rows, min_images: int = 2) -> None:
    """Raise SmallClassesError if a class has fewer than ``min_images`` samples."""
    classes, counts = np.unique(labels, return_counts=True)
    small = classes[counts < min_images]
    if len(small):
        raise SmallClassesError(small.tolist(), of=len(classes), min_images=min_images)


def check_fraction(name: str, value: float) -> None:
    """Raise UsageError unless ``value`` is strictly between 0 and 1."""
    if not 0 < value < 1:
        raise UsageError(f"{name} is {value:g}; it must be between 0 and 1")


def check_folds(folds: int, num_classes: int) -> None:
    """Raise UsageError unless there are at least two folds, and a class for each."""
    if folds < 2:
        raise UsageError(f'folds must be at least 2, got {folds}; for one fold use the plan "fixed_ratio"')
    if num_classes < folds:
        fewer = f"folds={num_classes} or fewer, " if num_classes > 1 else ""
        raise UsageError(
            f"{num_classes} development classes cannot make {folds} folds; use {fewer}a smaller "
            "test_fraction, or a dataset with more classes"
        )


def make_folds(labels: Rows, classes: Rows, validation: Sequence[Rows]) -> tuple[Fold, ...]:
    """Return one fold per set of validation classes; it trains on the other classes."""
    return tuple(
        Fold(
            train=rows_of_classes(labels, np.setdiff1d(classes, held_out)),
            validation=rows_of_classes(labels, held_out),
        )
        for held_out in validation
    )


def rows_of_classes(labels: Rows, classes: Rows) -> Rows:
    """Return the sorted row numbers of the samples of these classes."""
    return np.flatnonzero(np.isin(labels, classes)).astype(np.int64)
