"""Batches of given pairs or triplets, for training without class labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from levelfield.core.errors import UsageError
from levelfield.core.geometry import Pairs, Triplets
from levelfield.core.seeds import numpy_generator
from levelfield.data import Rows
from levelfield.samplers._sampler import BatchSampler, check_labels, epoch_length
from levelfield.samplers._shuffling import ShuffledCycle, group_rows


class GivenTriplets(BatchSampler):
    """Batches of given triplets: rows anchor, positive, negative, anchor, positive, negative, and so on.

    Pass ``sampler.tuples`` to the loss. Every triplet is used once before any repeats. If the training set
    has labels, :meth:`draw` makes a fixed set of triplets, to measure what triplets alone teach.

    Args:
        triplets: Row numbers of anchor, positive and negative, T x 3.
        batch_size: Rows per batch, a multiple of 3.
        seed: Seed; a batch depends on the seed and the epoch number.

    Example:
        >>> sampler = GivenTriplets([[0, 1, 5], [2, 3, 4]], batch_size=3, seed=0)
        >>> sorted(rows.tolist() for rows in sampler.epoch(0))
        [[0, 1, 5], [2, 3, 4]]
        >>> sampler.tuples.negative
        tensor([2])
    """

    def __init__(self, triplets: npt.ArrayLike, *, batch_size: int, seed: int) -> None:
        self.triplets = _check_rows(triplets, 3, "triplets")
        _check_multiple("triplets", batch_size, 3)
        self.num_samples, self.batch_size, self._seed = self.triplets.size, batch_size, seed

    @classmethod
    def draw(cls, labels: npt.ArrayLike, count: int, *, batch_size: int, seed: int) -> GivenTriplets:
        """Return a sampler of ``count`` triplets, drawn once by ``labels`` (n).

        Anchor and positive are two samples of a random class; the negative is of another random class.
        """
        groups = group_rows(check_labels(labels))
        several = [number for number, rows in enumerate(groups) if len(rows) > 1]
        if not several or len(groups) < 2 or count < 1:
            raise UsageError(
                "given triplets need a count of at least 1, two classes, and a class with two samples; "
                "check the labels"
            )
        random = numpy_generator(seed, "given triplets")
        found = []
        for _ in range(count):
            own = int(random.choice(several))
            other = int(random.integers(len(groups) - 1))
            other += other >= own
            anchor, positive = random.choice(groups[own], 2, replace=False)
            found.append((anchor, positive, random.choice(groups[other])))
        return cls(np.array(found), batch_size=batch_size, seed=seed)

    @property
    def tuples(self) -> Triplets:
        """Triplets of places in a batch, for the loss."""
        anchor = torch.arange(0, self.batch_size, 3)
        return Triplets(anchor, anchor + 1, anchor + 2)

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of epoch ``number``; see :meth:`levelfield.samplers.BatchSampler.epoch`."""
        random = numpy_generator(self._seed, "given triplets", number)
        cycle = ShuffledCycle(np.arange(len(self.triplets)), random)
        for _ in range(epoch_length(self.num_samples, self.batch_size, iterations)):
            yield self.triplets[cycle.take(self.batch_size // 3)].ravel()


class GivenPairs(BatchSampler):
    """Batches of given pairs: first pairs that belong together, then as many that do not.

    Pass ``sampler.tuples`` to the loss. Both lists are used in shuffled rounds; an epoch is one round of the
    longer one.

    Args:
        positive: Row numbers of pairs that belong together, P x 2.
        negative: Row numbers of pairs that do not, N x 2.
        batch_size: Rows per batch, a multiple of 4.
        seed: Seed; a batch depends on the seed and the epoch number.

    Example:
        >>> sampler = GivenPairs([[0, 1]], [[0, 2]], batch_size=4, seed=0)
        >>> [rows.tolist() for rows in sampler.epoch(0)], sampler.tuples.neg_anchor
        ([[0, 1, 0, 2]], tensor([2]))
    """

    def __init__(
        self, positive: npt.ArrayLike, negative: npt.ArrayLike, *, batch_size: int, seed: int
    ) -> None:
        self.positive = _check_rows(positive, 2, "positive pairs")
        self.negative = _check_rows(negative, 2, "negative pairs")
        _check_multiple("pairs", batch_size, 4)
        self.num_samples = 4 * max(len(self.positive), len(self.negative))
        self.batch_size, self._seed = batch_size, seed

    @property
    def tuples(self) -> Pairs:
        """Pairs of places in a batch, for the loss."""
        first = torch.arange(0, self.batch_size, 2)
        half = len(first) // 2
        return Pairs(first[:half], first[:half] + 1, first[half:], first[half:] + 1)

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of epoch ``number``; see :meth:`levelfield.samplers.BatchSampler.epoch`."""
        random = numpy_generator(self._seed, "given pairs", number)
        lists = self.positive, self.negative
        cycles = [ShuffledCycle(np.arange(len(pairs)), random) for pairs in lists]
        count = self.batch_size // 4
        for _ in range(epoch_length(self.num_samples, self.batch_size, iterations)):
            chosen = [pairs[cycle.take(count)] for pairs, cycle in zip(lists, cycles, strict=True)]
            yield np.concatenate(chosen).ravel()


def _check_rows(rows: npt.ArrayLike, width: int, name: str) -> Rows:
    array = np.asarray(rows)
    whole = np.issubdtype(array.dtype, np.integer)
    if array.ndim != 2 or array.shape[1] != width or not len(array) or not whole or array.min() < 0:
        raise UsageError(
            f"{name} must be a non-empty list of {width} row numbers each, got {array.dtype} of shape "
            f"{array.shape}; give row numbers of the training set, from 0"
        )
    return array.astype(np.int64)


def _check_multiple(name: str, batch_size: int, of: int) -> None:
    if batch_size < of or batch_size % of:
        raise UsageError(
            f"given {name}: batch_size {batch_size} is not a multiple of {of}; "
            f"set it to {max(batch_size // of, 1) * of}"
        )
