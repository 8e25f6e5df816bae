"""Base classes of the samplers that choose batches by the embeddings in a memory bank.

"Revisiting Training Strategies and Generalization Performance in Deep Metric Learning" draws a candidate set
B* of b* = 1024 samples from a memory bank, and chooses a batch of b samples with similar statistics. As in
its experiments, both consist of groups of ``samples_per_class`` samples of one class, so that every sample
of the batch has a positive. With ``samples_per_class=1`` labels are ignored.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.core.errors import RunError, UsageError
from levelfield.core.options import Size
from levelfield.core.seeds import numpy_generator
from levelfield.data import Rows
from levelfield.samplers._groups import count_groups, draw_groups
from levelfield.samplers._sampler import BatchSampler, check_labels, epoch_length, groups_per_batch
from levelfield.samplers.memory_bank import MemoryBank


@dataclass(kw_only=True, eq=False, repr=False)
class BankSampler(BatchSampler):
    """Base of the samplers that choose by the embeddings in a memory bank; implement ``choose_batch``.

    A batch is a function of (seed, epoch, iteration, content of the bank). It is chosen when it is
    requested, so update the bank with each batch before requesting the next one. As long as the bank has no
    embedding for some samples, batches consist of such samples, at random.

    The dataclass fields are the options, also in subclasses. ``name`` is the registered name.
    """

    name: ClassVar[str]
    needs_bank: ClassVar[bool] = True

    labels: npt.ArrayLike = field(kw_only=False)
    """Class of each training sample, (n,)."""
    batch_size: int
    """Rows per batch, b; 112 in the paper."""
    seed: int
    """Seed of all random choices."""
    samples_per_class: Size = 2
    """Samples per group of one class; 1 ignores classes.

    Samples of a class with fewer samples are repeated.
    """

    def __post_init__(self) -> None:
        name, per_class = self.name, self.samples_per_class
        classes, class_of = np.unique(check_labels(self.labels), return_inverse=True)
        # NumPy sorts 16-bit integers by radix, many times faster; they suffice for most datasets.
        self.num_samples = len(class_of)
        self._class_of = class_of.astype(np.min_scalar_type(len(classes)))
        self._groups = groups_per_batch(name, batch_size=self.batch_size, samples_per_class=per_class)
        available = count_groups(self._class_of, per_class)
        if available < self._groups:
            raise UsageError(
                f"{name}: batch_size {self.batch_size} needs {self._groups} groups of {per_class} samples "
                f"of one class, but the training set has {available}; "
                f"lower batch_size to {available * per_class}"
            )
        self._bank: MemoryBank | None = None

    def attach(self, bank: MemoryBank) -> None:
        """Set the memory bank that batches are chosen by."""
        if len(bank) != len(self._class_of):
            raise UsageError(
                f"{self.name}: the memory bank has {len(bank)} samples, but the training set has "
                f"{len(self._class_of)}; make the bank with MemoryBank({len(self._class_of)}, size)"
            )
        self._bank = bank

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of epoch ``number``, each chosen when it is requested."""
        length = epoch_length(len(self._class_of), self.batch_size, iterations)
        for iteration in range(length):
            yield self.batch(number, iteration)

    def batch(self, epoch: int, iteration: int) -> Rows:
        """Return one batch, chosen by the current content of the bank, independent of earlier batches."""
        if self._bank is None:
            raise RunError(f"{self.name} chooses by embeddings; call attach(bank) before the first epoch")
        random = numpy_generator(self.seed, self.name, epoch, iteration)
        unknown = ~self._bank.known.numpy()
        order = random.permutation(len(self._class_of))
        if unknown.any():
            unknown_first = order[np.argsort(~unknown[order], kind="stable")]
            return self._draw(unknown_first, self._groups).ravel()
        return self.choose_batch(self._bank, order, random)

    def choose_batch(self, bank: MemoryBank, order: Rows, random: np.random.Generator) -> Rows:
        """Return a batch, chosen by the content of the bank; ``order`` is a random order of all rows."""
        raise NotImplementedError

    def _draw(self, order: Rows, count: int) -> Rows:
        return draw_groups(order, self._class_of, size=self.samples_per_class, count=count)


@dataclass(kw_only=True, eq=False, repr=False)
class CandidateSetSampler(BankSampler):
    """Base of the samplers that choose a batch from a candidate set; implement ``choose_groups``."""

    candidate_set: Size = 1024
    """Number of samples to choose from, b*; all samples if there are fewer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidate_set < self.batch_size:
            raise UsageError(
                f"{self.name}: candidate_set {self.candidate_set} is smaller than batch_size "
                f"{self.batch_size}; raise it"
            )

    def choose_batch(self, bank: MemoryBank, order: Rows, random: np.random.Generator) -> Rows:
        """Return the chosen groups of the candidate set."""
        groups = self._draw(order, self.candidate_set // self.samples_per_class)
        embeddings = bank.embeddings[torch.from_numpy(groups)]
        return groups[self.choose_groups(embeddings, self._groups, random)].ravel()

    def choose_groups(self, embeddings: Tensor, count: int, random: np.random.Generator) -> Rows:
        """Return ``count`` of the groups, given their embeddings (groups x samples_per_class x D)."""
        raise NotImplementedError
