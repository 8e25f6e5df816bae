"""SPC-R: random samples, and one that makes a positive pair."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.batches import register
from levelfield.batches._deck import Deck, group_rows
from levelfield.batches._sampler import check_batch_size, check_labels, epoch_length
from levelfield.data import Rows
from levelfield.errors import UsageError
from levelfield.seeds import numpy_generator


@register(
    "spc_r",
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
)
class RandomWithPositive:
    """SPC-R: b-1 random samples, and a last one of the same class as one of them.

    The b-1 come each once before any comes again. Where all of them are the only ones of their class, the
    first is exchanged for a sample that has a partner. Where the batch holds every sample of its classes
    already, the last one comes twice.

    Args:
        labels: Class of each training sample, (n,); some class must have two.
        batch_size: b, the rows of every batch; the paper's is 112.
        seed: Together with the number of the epoch it decides every batch.

    Example:
        >>> sampler = RandomWithPositive([0, 0, 1, 2, 3], batch_size=2, seed=0)
        >>> sorted(next(sampler.epoch(0)).tolist())
        [0, 1]
    """

    needs_bank = False

    def __init__(self, labels: npt.ArrayLike, *, batch_size: int, seed: int) -> None:
        self._labels = check_labels(labels)
        self._batch_size = check_batch_size(batch_size, samples=len(self._labels))
        self._rows_of_class = group_rows(self._labels)
        self._class_of = np.unique(self._labels, return_inverse=True)[1]
        self._has_partner = np.bincount(self._class_of)[self._class_of] > 1
        if batch_size < 2 or not self._has_partner.any():
            raise UsageError(
                f"spc_r puts two samples of one class into each batch; batch_size {batch_size} must be 2 at "
                "least, and some class must have two samples"
            )
        self._seed = seed

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """The batches of epoch ``number``; see :class:`levelfield.batches.BatchSampler`."""
        random = numpy_generator(self._seed, "spc_r", number)
        deck = Deck(np.arange(len(self._labels)), random)
        for _ in range(epoch_length(len(self._labels), self._batch_size, iterations)):
            rows = deck.deal(self._batch_size - 1)
            if not self._has_partner[rows].any():
                rows[0] = random.choice(np.flatnonzero(self._has_partner))
            yield np.append(rows, self._partner(rows, random))

    def _partner(self, rows: Rows, random: np.random.Generator) -> np.int64:
        anchors = rows[self._has_partner[rows]]
        for anchor in random.permutation(anchors):
            partners = np.setdiff1d(self._rows_of_class[self._class_of[anchor]], rows)
            if len(partners):
                break
        else:  # whole classes are in the batch, so a positive pair is there already
            partners = anchors
        chosen: np.int64 = random.choice(partners)
        return chosen
