"""C classes x M samples: the batches of "A Metric Learning Reality Check"."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.batches import register
from levelfield.batches._deck import ClassDecks, Deck, group_rows
from levelfield.batches._sampler import check_labels, classes_per_batch, epoch_length
from levelfield.data import Rows
from levelfield.options import Size
from levelfield.seeds import numpy_generator


@register("class_balanced", paper="A Metric Learning Reality Check", year=2020)
class ClassBalanced:
    """C classes with M samples each, every class and every sample equally often.

    Classes are dealt without replacement, so within an epoch two classes' numbers of turns differ by one at
    most, and so do those of two samples of one class. A class with fewer than M samples gives all of them,
    and the missing ones are drawn from it again, with replacement.

    Args:
        labels: Class of each training sample, (n,).
        batch_size: C x M, the rows of every batch.
        seed: Together with the number of the epoch it decides every batch.
        samples_per_class: M. The reality check takes 8 x 4 for embedding losses (the default), 32 x 1 for
            classification losses.

    Example:
        >>> sampler = ClassBalanced([5, 5, 5, 9, 9, 9], batch_size=4, seed=0, samples_per_class=2)
        >>> batch = next(sampler.epoch(0))
        >>> sorted(5 if row < 3 else 9 for row in batch)
        [5, 5, 9, 9]
    """

    needs_bank = False

    def __init__(
        self, labels: npt.ArrayLike, *, batch_size: int, seed: int, samples_per_class: Size = 4
    ) -> None:
        self._rows_of_class = group_rows(check_labels(labels))
        self._classes = classes_per_batch(
            "class_balanced",
            batch_size=batch_size,
            samples_per_class=samples_per_class,
            num_classes=len(self._rows_of_class),
        )
        self._samples = samples_per_class
        self._seed = seed

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """The batches of epoch ``number``; see :class:`levelfield.batches.BatchSampler`."""
        random = numpy_generator(self._seed, "class_balanced", number)
        classes = Deck(np.arange(len(self._rows_of_class)), random)
        decks = ClassDecks(self._rows_of_class, random)
        samples = sum(map(len, self._rows_of_class))
        for _ in range(epoch_length(samples, self._classes * self._samples, iterations)):
            hand = classes.deal(self._classes)
            yield np.concatenate([decks.deal(int(chosen), self._samples) for chosen in hand])
