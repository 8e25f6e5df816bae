"""What a batch sampler is, and the checks that all of them share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from levelfield.data import Rows
from levelfield.errors import UsageError
from levelfield.registry import Card


class BatchSampler(Protocol):
    """Says which rows of the training set go into which batch.

    An epoch is a pure function of (seed, epoch number) and, for samplers that need a memory bank, of what
    the bank holds when a batch is drawn. A run resumes in the middle of an epoch by asking for the same
    epoch again and skipping the batches it has had.

    Attributes:
        needs_bank: Whether a memory bank must be attached (``sampler.attach(bank)``) before the first epoch.
    """

    needs_bank: bool

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """The batches of epoch ``number``: exactly ``iterations`` arrays of exactly ``batch_size`` rows.

        Rows are numbers 0..n-1 into the labels that the sampler was made with. Without ``iterations`` an
        epoch is as long as one pass over the data: n // batch_size batches, at least one.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class SamplerCard(Card):
    """A batch sampler's card.

    Attributes:
        needs_bank: Whether it chooses by embeddings, and so needs a memory bank.
    """

    needs_bank: bool = False


def check_labels(labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The labels as an int64 array of shape (n,); UsageError if they are no such thing."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise UsageError(
            f"labels must be a non-empty list of whole numbers, one per training sample, "
            f"got shape {array.shape} of {array.dtype}"
        )
    return array.astype(np.int64)


def check_batch_size(batch_size: int, *, samples: int | None = None) -> int:
    """The batch size, if it is at least 1 and no more than the number of ``samples``."""
    if batch_size < 1:
        raise UsageError(f"batch_size must be at least 1, got {batch_size}")
    if samples is not None and batch_size > samples:
        raise UsageError(
            f"batch_size {batch_size} is more than the training set has ({samples} samples); lower it"
        )
    return batch_size


def groups_per_batch(name: str, *, batch_size: int, samples_per_class: int) -> int:
    """How many groups of ``samples_per_class`` samples fill a batch; UsageError if they do not fit.

    Example:
        >>> groups_per_batch("class_balanced", batch_size=32, samples_per_class=4)
        8
    """
    check_batch_size(batch_size)
    if samples_per_class < 1:
        raise UsageError(f"{name}: samples_per_class must be at least 1, got {samples_per_class}")
    wanted, rest = divmod(batch_size, samples_per_class)
    if rest or not wanted:
        raise UsageError(
            f"{name}: batch_size {batch_size} is not a multiple of samples_per_class {samples_per_class}; "
            f"take batch_size {max(wanted, 1) * samples_per_class}"
        )
    return wanted


def classes_per_batch(name: str, *, batch_size: int, samples_per_class: int, num_classes: int) -> int:
    """How many different classes of ``samples_per_class`` samples fill a batch, if there are so many."""
    wanted = groups_per_batch(name, batch_size=batch_size, samples_per_class=samples_per_class)
    if wanted > num_classes:
        raise UsageError(
            f"{name}: batch_size {batch_size} at {samples_per_class} per class needs {wanted} classes, "
            f"but the training set has {num_classes}; lower batch_size to {num_classes * samples_per_class} "
            f"or raise samples_per_class"
        )
    return wanted


def epoch_length(samples: int, batch_size: int, iterations: int | None) -> int:
    """How many batches an epoch has.

    Example:
        >>> epoch_length(100, 32, None), epoch_length(100, 32, 7)
        (3, 7)
    """
    if iterations is None:
        return max(1, samples // batch_size)
    if iterations < 0:
        raise UsageError(
            f"iterations must not be negative, got {iterations}; None means one pass over the data"
        )
    return iterations
