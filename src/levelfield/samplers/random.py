"""Random batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.core.seeds import numpy_generator
from levelfield.data import Rows
from levelfield.samplers import register
from levelfield.samplers._sampler import BatchSampler, check_batch_size, check_labels, epoch_length
from levelfield.samplers._shuffling import ShuffledCycle


@register("random")
class Random(BatchSampler):
    """Random batches without replacement; labels are ignored.

    Every sample occurs once before any sample repeats. If a pass over the data ends within a batch, the
    batch is completed from the next pass.

    Args:
        labels: Class of each training sample, (n,); only their number is used.
        batch_size: Rows per batch.
        seed: Seed; a batch depends on the seed and the epoch number.

    Example:
        >>> sampler = Random([0, 0, 1, 1], batch_size=2, seed=0)
        >>> sorted(int(row) for batch in sampler.epoch(0) for row in batch)
        [0, 1, 2, 3]
    """

    def __init__(self, labels: npt.ArrayLike, *, batch_size: int, seed: int) -> None:
        self._rows = np.arange(len(check_labels(labels)))
        self.num_samples = len(self._rows)
        self.batch_size = check_batch_size(batch_size, samples=len(self._rows))
        self._seed = seed

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of epoch ``number``; see :meth:`levelfield.samplers.BatchSampler.epoch`."""
        cycle = ShuffledCycle(self._rows, numpy_generator(self._seed, "random", number))
        for _ in range(epoch_length(len(self._rows), self.batch_size, iterations)):
            yield cycle.take(self.batch_size)
