"""What the embedded samplers share: known embeddings, and for most a candidate set to choose a batch from.

"Revisiting Training Strategies and Generalization Performance in Deep Metric Learning" draws a set B* of
b* = 1024 samples from a memory bank, and distils it into a batch of b samples whose statistics match. As in
its experiments, both are made of groups of ``samples_per_class`` samples of one class, so that every sample
of the batch has a positive; with 1 the labels play no part.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.batches._groups import count_groups, draw_groups
from levelfield.batches._sampler import check_labels, epoch_length, groups_per_batch
from levelfield.batches.memory_bank import MemoryBank
from levelfield.data import Rows
from levelfield.errors import RunError, UsageError
from levelfield.options import Size
from levelfield.seeds import numpy_generator


@dataclass(kw_only=True, eq=False, repr=False)
class BankSampler:
    """Base of the samplers that choose by the embeddings in a memory bank; each implements ``from_bank``.

    A batch is a function of (seed, epoch, iteration, content of the bank) and is chosen when it is asked for:
    update the bank with a batch before you ask for the next. As long as there are samples that the bank does
    not know, batches are made of those, at random.

    The fields are the options, those of every subclass included; ``name`` is the registered name.
    """

    name: ClassVar[str]
    needs_bank: ClassVar[bool] = True

    labels: npt.ArrayLike = field(kw_only=False)
    """Class of each training sample, (n,)."""
    batch_size: int
    """b, the rows of every batch; the paper's is 112."""
    seed: int
    """Of every random choice."""
    samples_per_class: Size = 2
    """Batches are made of so many samples of a class at a time; 1 ignores classes.

    A class with fewer samples gives some twice.
    """

    def __post_init__(self) -> None:
        name, per_class = self.name, self.samples_per_class
        classes, class_of = np.unique(check_labels(self.labels), return_inverse=True)
        # Numbers of 16 bits, which do for most, are sorted by radix: many times faster, for every batch.
        self._class_of = class_of.astype(np.min_scalar_type(len(classes)))
        self._groups = groups_per_batch(name, batch_size=self.batch_size, samples_per_class=per_class)
        available = count_groups(self._class_of, per_class)
        if available < self._groups:
            raise UsageError(
                f"{name}: batch_size {self.batch_size} needs {self._groups} groups of {per_class} samples "
                f"of one class, the training set has {available}; lower batch_size to {available * per_class}"
            )
        self._bank: MemoryBank | None = None

    def attach(self, bank: MemoryBank) -> None:
        """Choose by the embeddings in this bank from now on."""
        if len(bank) != len(self._class_of):
            raise UsageError(
                f"{self.name}: the memory bank is for {len(bank)} samples, the training set has "
                f"{len(self._class_of)}"
            )
        self._bank = bank

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """The batches of epoch ``number``, each chosen when it is asked for."""
        length = epoch_length(len(self._class_of), self.batch_size, iterations)
        for iteration in range(length):
            yield self.batch(number, iteration)

    def batch(self, epoch: int, iteration: int) -> Rows:
        """One batch, by what the bank holds now; a resumed run need not replay the ones before."""
        if self._bank is None:
            raise RunError(f"{self.name} chooses by embeddings; call attach(bank) before the first epoch")
        random = numpy_generator(self.seed, self.name, epoch, iteration)
        unknown = ~self._bank.known.numpy()
        order = random.permutation(len(self._class_of))
        if unknown.any():
            unknown_first = order[np.argsort(~unknown[order], kind="stable")]
            return self._draw(unknown_first, self._groups).ravel()
        return self.from_bank(self._bank, order, random)

    def from_bank(self, bank: MemoryBank, order: Rows, random: np.random.Generator) -> Rows:
        """A batch, chosen by what the bank holds; ``order`` is a random order of all rows."""
        raise NotImplementedError

    def _draw(self, order: Rows, count: int) -> Rows:
        return draw_groups(order, self._class_of, size=self.samples_per_class, count=count)


@dataclass(kw_only=True, eq=False, repr=False)
class EmbeddedSampler(BankSampler):
    """Base of the samplers that distil a batch from a candidate set; each implements ``choose``."""

    candidate_set: Size = 1024
    """b*, how many samples to choose from; all of them if there are fewer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidate_set < self.batch_size:
            raise UsageError(
                f"{self.name}: candidate_set {self.candidate_set} must not be smaller than batch_size "
                f"{self.batch_size}"
            )

    def from_bank(self, bank: MemoryBank, order: Rows, random: np.random.Generator) -> Rows:
        """The chosen groups of the candidate set."""
        groups = self._draw(order, self.candidate_set // self.samples_per_class)
        embeddings = bank.embeddings[torch.from_numpy(groups)]
        return groups[self.choose(embeddings, self._groups, random)].ravel()

    def choose(self, embeddings: Tensor, count: int, random: np.random.Generator) -> Rows:
        """Choose ``count`` of the groups whose embeddings (groups x samples_per_class x D) are given."""
        raise NotImplementedError
