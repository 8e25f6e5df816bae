"""Random batches with equal class frequencies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.core.seeds import numpy_generator
from levelfield.data import Rows
from levelfield.samplers import register
from levelfield.samplers._sampler import BatchSampler, check_batch_size, check_labels, epoch_length
from levelfield.samplers._shuffling import ClassCycles, group_rows


@register("balanced")
class Balanced(BatchSampler):
    """Random batches in which every class is equally likely, whatever its number of samples.

    The class of each sample is drawn with replacement, so a batch contains positives only by chance. Within a
    class, every sample occurs once before any sample repeats.

    Args:
        labels: Class of each training sample, (n,).
        batch_size: Rows per batch.
        seed: Seed; a batch depends on the seed and the epoch number.

    Example:
        >>> sampler = Balanced([0, 0, 0, 1], batch_size=4, seed=0)
        >>> len(next(sampler.epoch(0)))
        4
    """

    def __init__(self, labels: npt.ArrayLike, *, batch_size: int, seed: int) -> None:
        self._labels = check_labels(labels)
        self.num_samples = len(self._labels)
        self._rows_of_class = group_rows(self._labels)
        self.batch_size = check_batch_size(batch_size)
        self._seed = seed

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of epoch ``number``; see :meth:`levelfield.samplers.BatchSampler.epoch`."""
        random = numpy_generator(self._seed, "balanced", number)
        cycles = ClassCycles(self._rows_of_class, random)
        for _ in range(epoch_length(self.num_samples, self.batch_size, iterations)):
            drawn = random.integers(len(self._rows_of_class), size=self.batch_size)
            classes, counts = np.unique(drawn, return_counts=True)
            yield np.concatenate(
                [cycles.take(int(chosen), int(count)) for chosen, count in zip(classes, counts, strict=True)]
            )
