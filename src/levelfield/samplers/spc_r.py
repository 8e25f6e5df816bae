"""SPC-R: random batches with at least one positive pair."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UsageError
from levelfield.core.seeds import numpy_generator
from levelfield.data import Rows
from levelfield.samplers import register
from levelfield.samplers._sampler import BatchSampler, check_batch_size, check_labels, epoch_length
from levelfield.samplers._shuffling import ShuffledCycle, group_rows


@register(
    "spc_r",
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
)
class RandomWithPositive(BatchSampler):
    """SPC-R: b-1 random samples, and one more sample of the class of one of them.

    The b-1 samples are drawn without replacement within an epoch. If none of them shares its class with
    another training sample, the first is replaced by a sample that does. If the batch already contains all
    samples of its classes, one sample is repeated.

    Args:
        labels: Class of each training sample, (n,); at least one class must have two samples.
        batch_size: Rows per batch, b; 112 in the paper.
        seed: Seed; a batch depends on the seed and the epoch number.

    Example:
        >>> sampler = RandomWithPositive([0, 0, 1, 2, 3], batch_size=2, seed=0)
        >>> sorted(next(sampler.epoch(0)).tolist())
        [0, 1]
    """

    def __init__(self, labels: npt.ArrayLike, *, batch_size: int, seed: int) -> None:
        self._labels = check_labels(labels)
        self.num_samples = len(self._labels)
        self.batch_size = check_batch_size(batch_size, samples=len(self._labels))
        self._rows_of_class = group_rows(self._labels)
        self._class_of = np.unique(self._labels, return_inverse=True)[1]
        self._has_partner = np.bincount(self._class_of)[self._class_of] > 1
        if batch_size < 2 or not self._has_partner.any():
            raise UsageError(
                f"spc_r needs batch_size >= 2 and a class with two or more samples, got batch_size "
                f"{batch_size}; raise batch_size or use sampler random"
            )
        self._seed = seed

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of epoch ``number``; see :meth:`levelfield.samplers.BatchSampler.epoch`."""
        random = numpy_generator(self._seed, "spc_r", number)
        cycle = ShuffledCycle(np.arange(len(self._labels)), random)
        for _ in range(epoch_length(len(self._labels), self.batch_size, iterations)):
            rows = cycle.take(self.batch_size - 1)
            if not self._has_partner[rows].any():
                rows[0] = random.choice(np.flatnonzero(self._has_partner))
            yield np.append(rows, self._partner(rows, random))

    def _partner(self, rows: Rows, random: np.random.Generator) -> np.int64:
        anchors = rows[self._has_partner[rows]]
        for anchor in random.permutation(anchors):
            partners = np.setdiff1d(self._rows_of_class[self._class_of[anchor]], rows)
            if len(partners):
                break
        else:  # the batch contains whole classes, so it already has a positive pair
            partners = anchors
        chosen: np.int64 = random.choice(partners)
        return chosen
