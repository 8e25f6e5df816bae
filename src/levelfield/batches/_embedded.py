"""What the embedded samplers share: a candidate set with known embeddings, to choose a batch from.

"Revisiting Training Strategies and Generalization Performance in Deep Metric Learning" draws a set B* of
b* = 1024 samples from a memory bank, and distils it into a batch of b samples whose statistics match. As in
its experiments, both are made of groups of ``samples_per_class`` samples of one class, so that every sample
of the batch has a positive; with 1 the labels play no part.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.batches._groups import count_groups, draw_groups
from levelfield.batches._sampler import check_labels, epoch_length, groups_per_batch
from levelfield.batches.memory_bank import MemoryBank
from levelfield.data import Rows
from levelfield.errors import RunError, UsageError
from levelfield.seeds import numpy_generator


class EmbeddedSampler:
    """Base of the samplers that choose by the embeddings in a memory bank; each implements ``choose``.

    A batch is a function of (seed, epoch, iteration, content of the bank) and is chosen when it is asked for:
    update the bank with a batch before you ask for the next. As long as there are samples that the bank does
    not know, batches are made of those, at random.

    Args:
        name: The registered name.
        labels: Class of each training sample, (n,).
        batch_size: b, the rows of every batch.
        seed: Of every random choice.
        samples_per_class: The size of the groups of one class. A class with fewer samples gives some twice.
        candidate_set: b*, how many samples to choose from; all of them if there are fewer.
    """

    needs_bank = True

    def __init__(
        self,
        name: str,
        labels: npt.ArrayLike,
        *,
        batch_size: int,
        seed: int,
        samples_per_class: int,
        candidate_set: int,
    ) -> None:
        self._name = name
        classes, class_of = np.unique(check_labels(labels), return_inverse=True)
        # Numbers of 16 bits, which do for most, are sorted by radix: many times faster, for every batch.
        self._class_of = class_of.astype(np.min_scalar_type(len(classes)))
        self._per_class = samples_per_class
        self._groups = groups_per_batch(name, batch_size=batch_size, samples_per_class=samples_per_class)
        available = count_groups(self._class_of, samples_per_class)
        if available < self._groups:
            raise UsageError(
                f"{name}: batch_size {batch_size} needs {self._groups} groups of {samples_per_class} samples "
                f"of one class, the training set has {available}; lower batch_size to "
                f"{available * samples_per_class}"
            )
        if candidate_set < batch_size:
            raise UsageError(
                f"{name}: candidate_set {candidate_set} must not be smaller than batch_size {batch_size}"
            )
        self._candidate_groups = candidate_set // samples_per_class
        self._seed = seed
        self._bank: MemoryBank | None = None

    def attach(self, bank: MemoryBank) -> None:
        """Choose by the embeddings in this bank from now on."""
        if len(bank) != len(self._class_of):
            raise UsageError(
                f"{self._name}: the memory bank is for {len(bank)} samples, the training set has "
                f"{len(self._class_of)}"
            )
        self._bank = bank

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """The batches of epoch ``number``, each chosen when it is asked for."""
        length = epoch_length(len(self._class_of), self._groups * self._per_class, iterations)
        for iteration in range(length):
            yield self.batch(number, iteration)

    def batch(self, epoch: int, iteration: int) -> Rows:
        """One batch, by what the bank holds now; a resumed run need not replay the ones before."""
        if self._bank is None:
            raise RunError(f"{self._name} chooses by embeddings; call attach(bank) before the first epoch")
        random = numpy_generator(self._seed, self._name, epoch, iteration)
        unknown = ~self._bank.known.numpy()
        order = random.permutation(len(self._class_of))
        if unknown.any():
            unknown_first = order[np.argsort(~unknown[order], kind="stable")]
            return self._draw(unknown_first, self._groups).ravel()
        groups = self._draw(order, self._candidate_groups)
        embeddings = self._bank.embeddings[torch.from_numpy(groups)]
        return groups[self.choose(embeddings, self._groups, random)].ravel()

    def choose(self, embeddings: Tensor, count: int, random: np.random.Generator) -> Rows:
        """Choose ``count`` of the groups whose embeddings (groups x samples_per_class x D) are given."""
        raise NotImplementedError

    def _draw(self, order: Rows, count: int) -> Rows:
        return draw_groups(order, self._class_of, size=self._per_class, count=count)
