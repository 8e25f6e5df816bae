"""Random batches in which rare classes come as often as common ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.batches import register
from levelfield.batches._deck import ClassDecks, group_rows
from levelfield.batches._sampler import check_batch_size, check_labels, epoch_length
from levelfield.data import Rows
from levelfield.seeds import numpy_generator


@register("balanced")
class Balanced:
    """Each sample of a batch is of a class drawn evenly from all classes, whatever their sizes.

    Classes are drawn with replacement, so that a batch may hold positives, but only by chance; within a class
    each sample comes once before any comes again, and so twice in a batch only if the class is drawn more
    often than it has samples.

    Args:
        labels: Class of each training sample, (n,).
        batch_size: The rows of every batch.
        seed: Together with the number of the epoch it decides every batch.

    Example:
        >>> sampler = Balanced([0, 0, 0, 1], batch_size=4, seed=0)
        >>> len(next(sampler.epoch(0)))
        4
    """

    needs_bank = False

    def __init__(self, labels: npt.ArrayLike, *, batch_size: int, seed: int) -> None:
        self._labels = check_labels(labels)
        self._rows_of_class = group_rows(self._labels)
        self._batch_size = check_batch_size(batch_size)
        self._seed = seed

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """The batches of epoch ``number``; see :class:`levelfield.batches.BatchSampler`."""
        random = numpy_generator(self._seed, "balanced", number)
        decks = ClassDecks(self._rows_of_class, random)
        for _ in range(epoch_length(len(self._labels), self._batch_size, iterations)):
            drawn = random.integers(len(self._rows_of_class), size=self._batch_size)
            classes, counts = np.unique(drawn, return_counts=True)
            yield np.concatenate(
                [decks.deal(int(chosen), int(count)) for chosen, count in zip(classes, counts, strict=True)]
            )
