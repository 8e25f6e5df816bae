"""SPC-n: n samples per class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.batches import register
from levelfield.batches._deck import ClassDecks, group_rows
from levelfield.batches._sampler import check_labels, classes_per_batch, epoch_length
from levelfield.data import Rows
from levelfield.options import Size
from levelfield.seeds import numpy_generator
from levelfield.space import Choice


@register(
    "spc",
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
    space={"samples_per_class": Choice(2, 4, 8)},
)
class SamplesPerClass:
    """SPC-2, SPC-4, SPC-8: b/n unique random classes, n random samples of each.

    The classes of each batch are drawn anew (``class_balanced`` deals them, so that none is left out). The
    samples of a class come without replacement as long as they last: each once before any comes again. A
    class with fewer than n samples gives all of them, and the missing ones are drawn with replacement.

    Args:
        labels: Class of each training sample, (n,).
        batch_size: b, the rows of every batch; the paper's is 112.
        seed: Together with the number of the epoch it decides every batch.
        samples_per_class: n.

    Example:
        >>> sampler = SamplesPerClass([0, 0, 1, 1, 2, 2], batch_size=4, seed=0)
        >>> batch = next(sampler.epoch(0))
        >>> [row // 2 for row in batch].count(batch[0] // 2)
        2
    """

    needs_bank = False

    def __init__(
        self, labels: npt.ArrayLike, *, batch_size: int, seed: int, samples_per_class: Size = 2
    ) -> None:
        self._labels = check_labels(labels)
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
        """The batches of epoch ``number``; see :class:`levelfield.batches.BatchSampler`."""
        random = numpy_generator(self._seed, "spc", number)
        decks = ClassDecks(self._rows_of_class, random)
        for _ in range(epoch_length(len(self._labels), self._classes * self._samples, iterations)):
            classes = random.choice(len(self._rows_of_class), self._classes, replace=False)
            yield np.concatenate([decks.deal(int(chosen), self._samples) for chosen in classes])
