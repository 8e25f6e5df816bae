"""Batches of samples with given weights, such as how often a miner chose each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from levelfield.core.errors import UsageError
from levelfield.core.geometry import MinedTuples
from levelfield.core.seeds import numpy_generator
from levelfield.data import Rows
from levelfield.samplers._sampler import BatchSampler, check_batch_size, epoch_length


class Weighted(BatchSampler):
    """Samples drawn with replacement, each with a probability in proportion to its weight.

    For offline mining, embed the training set every few epochs, mine in all of it, and give
    :func:`tuple_weights` of the result to :meth:`set_weights`.

    Args:
        weights: Weight of each training sample, (n,); not negative.
        batch_size: Rows per batch.
        seed: Seed; a batch depends on the seed, the epoch number and the weights.

    Example:
        >>> sampler = Weighted([0.0, 1.0, 0.0], batch_size=2, seed=0)
        >>> next(sampler.epoch(0)).tolist()
        [1, 1]
    """

    def __init__(self, weights: npt.ArrayLike, *, batch_size: int, seed: int) -> None:
        self.batch_size, self._seed = check_batch_size(batch_size), seed
        self.set_weights(weights)

    def set_weights(self, weights: npt.ArrayLike) -> None:
        """Replace the weights; the next epoch uses them."""
        array = np.asarray(weights, dtype=np.float64)
        if array.ndim != 1 or not np.isfinite(array).all() or (array < 0).any() or not array.any():
            raise UsageError(
                "weights must be a list of finite numbers from 0, at least one above 0; give one per sample"
            )
        self.num_samples = len(array)
        self._chances = array / array.sum()

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of epoch ``number``; see :meth:`levelfield.samplers.BatchSampler.epoch`."""
        random = numpy_generator(self._seed, "weighted", number)
        for _ in range(epoch_length(self.num_samples, self.batch_size, iterations)):
            yield random.choice(self.num_samples, self.batch_size, p=self._chances)


def tuple_weights(tuples: MinedTuples, count: int) -> npt.NDArray[np.float64]:
    """Return how often each of ``count`` samples is in the tuples, relative to the most frequent one.

    Without tuples, all samples have weight 1.

    Example:
        >>> from levelfield.miners import Triplets
        >>> tuple_weights(Triplets(torch.tensor([0, 0]), torch.tensor([1, 1]), torch.tensor([2, 3])), 5)
        array([1. , 1. , 0.5, 0.5, 0. ])
    """
    found = torch.bincount(torch.cat(tuple(tuples.indices)).cpu(), minlength=count).double().numpy()
    return np.asarray(found / found.max() if found.any() else np.ones(count))
