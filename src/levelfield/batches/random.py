"""Plain random batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.batches import register
from levelfield.batches._deck import Deck
from levelfield.batches._sampler import check_batch_size, check_labels, epoch_length
from levelfield.data import Rows
from levelfield.seeds import numpy_generator


@register("random")
class Random:
    """Samples in random order, each once before any comes again; labels do not matter.

    A pass over the data that does not end with a full batch goes on in the next batch, with a new order.

    Args:
        labels: Class of each training sample, (n,); only their number counts.
        batch_size: The rows of every batch.
        seed: Together with the number of the epoch it decides every batch.

    Example:
        >>> sampler = Random([0, 0, 1, 1], batch_size=2, seed=0)
        >>> sorted(int(row) for batch in sampler.epoch(0) for row in batch)
        [0, 1, 2, 3]
    """

    needs_bank = False

    def __init__(self, labels: npt.ArrayLike, *, batch_size: int, seed: int) -> None:
        self._rows = np.arange(len(check_labels(labels)))
        self._batch_size = check_batch_size(batch_size, samples=len(self._rows))
        self._seed = seed

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """The batches of epoch ``number``; see :class:`levelfield.batches.BatchSampler`."""
        deck = Deck(self._rows, numpy_generator(self._seed, "random", number))
        for _ in range(epoch_length(len(self._rows), self._batch_size, iterations)):
            yield deck.deal(self._batch_size)
