"""SPC-n: batches with n samples per class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.core.options import Size
from levelfield.core.seeds import numpy_generator
from levelfield.core.space import Choice
from levelfield.data import Rows
from levelfield.samplers import register
from levelfield.samplers._sampler import BatchSampler, check_labels, classes_per_batch, epoch_length
from levelfield.samplers._shuffling import ClassCycles, group_rows


@register(
    "spc",
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
    space={"samples_per_class": Choice(2, 4, 8)},
)
class SamplesPerClass(BatchSampler):
    """SPC-2, SPC-4, SPC-8: b/n different random classes with n random samples each.

    The classes of each batch are drawn independently of other batches; ``class_balanced`` uses all classes
    equally often instead. Every sample of a class occurs once before any repeats. A class with fewer than n
    samples contributes all of them; the rest is drawn from it with replacement.

    Args:
        labels: Class of each training sample, (n,).
        batch_size: Rows per batch, b; 112 in the paper.
        seed: Seed; a batch depends on the seed and the epoch number.
        samples_per_class: n.

    Example:
        >>> sampler = SamplesPerClass([0, 0, 1, 1, 2, 2], batch_size=4, seed=0)
        >>> batch = next(sampler.epoch(0))
        >>> [row // 2 for row in batch].count(batch[0] // 2)
        2
    """

    def __init__(
        self, labels: npt.ArrayLike, *, batch_size: int, seed: int, samples_per_class: Size = 2
    ) -> None:
        self._labels = check_labels(labels)
        self.num_samples, self.batch_size = len(self._labels), batch_size
        self._rows_of_class = group_rows(self._labels)
        self._classes = classes_per_batch(
            "spc",
            batch_size=batch_size,
            samples_per_class=samples_per_class,
            num_classes=len(self._rows_of_class),
        )
        self._samples = samples_per_class
        self._seed = seed

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of epoch ``number``; see :meth:`levelfield.samplers.BatchSampler.epoch`."""
        random = numpy_generator(self._seed, "spc", number)
        cycles = ClassCycles(self._rows_of_class, random)
        for _ in range(epoch_length(len(self._labels), self._classes * self._samples, iterations)):
            classes = random.choice(len(self._rows_of_class), self._classes, replace=False)
            yield np.concatenate([cycles.take(int(chosen), self._samples) for chosen in classes])
