"""Base class of the batch samplers, and their common checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UsageError
from levelfield.core.registry import Card
from levelfield.data import Rows


class BatchSampler(ABC):
    """Base class of the batch samplers. A sampler chooses the training rows of each batch.

    A sampler is iterable, so ``DataLoader(dataset, batch_sampler=sampler)`` works; call :meth:`set_epoch`
    before each epoch, as with PyTorch's ``DistributedSampler``. levelfield itself calls :meth:`epoch`.

    An epoch is a pure function of the seed and the epoch number and, for samplers that need a memory bank,
    of the bank's content when a batch is drawn. To resume in the middle of an epoch, ask for the same epoch
    and skip the batches that were trained already.

    Attributes:
        needs_bank: Whether a memory bank must be attached (``sampler.attach(bank)``) before the first epoch.
        num_samples: Number of training samples.
        batch_size: Rows of every batch.
    """

    needs_bank: ClassVar[bool] = False
    num_samples: int
    batch_size: int
    _epoch: int = 0

    @abstractmethod
    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of an epoch: ``iterations`` integer arrays of ``batch_size`` rows each.

        Args:
            number: Number of the epoch, from 0.
            iterations: Number of batches. Defaults to one pass over the data: ``num_samples // batch_size``
                batches, at least one.

        Yields:
            Row numbers, 0 to ``num_samples - 1``.
        """

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration yields."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the batches of the current epoch as lists of row numbers."""
        for rows in self.epoch(self._epoch):
            yield rows.tolist()

    def __len__(self) -> int:
        """Return the number of batches of one epoch."""
        return epoch_length(self.num_samples, self.batch_size, None)


@dataclass(frozen=True, kw_only=True)
class SamplerCard(Card):
    """Card of a batch sampler.

    Attributes:
        needs_bank: Whether it needs a memory bank.
    """

    needs_bank: bool = False


def check_labels(labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the labels as an int64 array of shape (n,); raise UsageError if they are invalid."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise UsageError(
            f"labels must be a non-empty list of integers, got {array.dtype} of shape {array.shape}; "
            "give one label per training sample"
        )
    return array.astype(np.int64)


def check_batch_size(batch_size: int, *, samples: int | None = None) -> int:
    """Return the batch size; raise UsageError if it is below 1 or above the number of ``samples``."""
    if batch_size < 1:
        raise UsageError(f"batch_size must be at least 1, got {batch_size}")
    if samples is not None and batch_size > samples:
        raise UsageError(
            f"batch_size {batch_size} is larger than the training set ({samples} samples); lower it"
        )
    return batch_size


def groups_per_batch(name: str, *, batch_size: int, samples_per_class: int) -> int:
    """Return ``batch_size / samples_per_class``; raise UsageError if it is not an integer.

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
            f"set batch_size to {max(wanted, 1) * samples_per_class}"
        )
    return wanted


def classes_per_batch(name: str, *, batch_size: int, samples_per_class: int, num_classes: int) -> int:
    """Return the number of classes in a batch; raise UsageError if the training set has fewer."""
    wanted = groups_per_batch(name, batch_size=batch_size, samples_per_class=samples_per_class)
    if wanted > num_classes:
        raise UsageError(
            f"{name}: batch_size {batch_size} at {samples_per_class} per class needs {wanted} classes, "
            f"but the training set has {num_classes}; lower batch_size to {num_classes * samples_per_class} "
            f"or raise samples_per_class"
        )
    return wanted


def epoch_length(samples: int, batch_size: int, iterations: int | None) -> int:
    """Return the number of batches of an epoch: ``iterations``, or one pass over the data.

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
