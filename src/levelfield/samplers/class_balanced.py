"""Batches of C classes with M samples each, as in "A Metric Learning Reality Check"."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.core.options import Size
from levelfield.core.seeds import numpy_generator
from levelfield.data import Rows
from levelfield.samplers import register
from levelfield.samplers._sampler import BatchSampler, check_labels, classes_per_batch, epoch_length
from levelfield.samplers._shuffling import ClassCycles, ShuffledCycle, group_rows


@register("class_balanced", paper="A Metric Learning Reality Check", year=2020)
class MPerClass(BatchSampler):
    """Batches of C classes with M samples each; all classes and samples are used equally often.

    Classes are drawn without replacement, so their counts within an epoch differ by at most one. The same
    holds for the samples of a class. A class with fewer than M samples contributes all of them; the rest is
    drawn from it with replacement.

    Args:
        labels: Class of each training sample, (n,).
        batch_size: Rows per batch, C x M.
        seed: Seed; a batch depends on the seed and the epoch number.
        samples_per_class: M. The reality check uses 8 x 4 for embedding losses (the default) and 32 x 1 for
            classification losses.

    Example:
        >>> sampler = MPerClass([5, 5, 5, 9, 9, 9], batch_size=4, seed=0, samples_per_class=2)
        >>> batch = next(sampler.epoch(0))
        >>> sorted(5 if row < 3 else 9 for row in batch)
        [5, 5, 9, 9]
    """

    def __init__(
        self, labels: npt.ArrayLike, *, batch_size: int, seed: int, samples_per_class: Size = 4
    ) -> None:
        self._rows_of_class = group_rows(check_labels(labels))
        self.num_samples, self.batch_size = sum(map(len, self._rows_of_class)), batch_size
        self._classes = classes_per_batch(
            "class_balanced",
            batch_size=batch_size,
            samples_per_class=samples_per_class,
            num_classes=len(self._rows_of_class),
        )
        self._samples = samples_per_class
        self._seed = seed

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of epoch ``number``; see :meth:`levelfield.samplers.BatchSampler.epoch`."""
        random = numpy_generator(self._seed, "class_balanced", number)
        classes = ShuffledCycle(np.arange(len(self._rows_of_class)), random)
        cycles = ClassCycles(self._rows_of_class, random)
        for _ in range(epoch_length(self.num_samples, self.batch_size, iterations)):
            taken = classes.take(self._classes)
            yield np.concatenate([cycles.take(int(chosen), self._samples) for chosen in taken])
