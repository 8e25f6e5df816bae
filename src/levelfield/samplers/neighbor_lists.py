"""Offline mining: batches from lists of nearest negatives, made anew every few epochs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.options import Size
from levelfield.data import Rows
from levelfield.samplers import register
from levelfield.samplers._bank_samplers import BankSampler
from levelfield.samplers._sampler import classes_per_batch
from levelfield.samplers.memory_bank import MemoryBank

CHUNK = 1024  # rows of similarities at a time


def nearest_negatives(embeddings: Tensor, class_of: Tensor, count: int) -> Tensor:
    """Return the ``count`` nearest samples of other classes of each sample, nearest first.

    Args:
        embeddings: n x D; compared by the cosine.
        class_of: Class of each sample, (n,).
        count: Length of the lists; at most the number of samples outside the largest class is returned.

    Returns:
        Row numbers, n x count.

    Example:
        >>> nearest_negatives(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), torch.tensor([0, 1, 1]), 1)
        tensor([[1],
                [0],
                [0]])
    """
    units = F.normalize(embeddings)
    outside = len(class_of) - int(torch.bincount(class_of).max())
    count = min(count, outside)
    found = []
    for start in range(0, len(units), CHUNK):
        rows = slice(start, start + CHUNK)
        similarity = units[rows] @ units.T
        similarity[class_of[rows, None] == class_of] = -torch.inf
        found.append(similarity.topk(count, dim=1).indices)
    return torch.cat(found)


@register(
    "neighbor_lists",
    needs_bank=True,
    paper="A Metric Learning Reality Check",
    year=2020,
)
@dataclass(kw_only=True, eq=False, repr=False)
class NeighborLists(BankSampler):
    """Offline mining: random anchors, each with hard negatives from a list of its nearest ones.

    Every ``every`` epochs, a list of the ``neighbors`` nearest samples of other classes is made for each
    training sample. An anchor is drawn at random, then ``negatives`` samples of its list. Each of them comes
    with ``samples_per_class`` - 1 more samples of its class, so that all have positives. A class is in a
    batch once. Section 1.4 of the paper describes offline mining and prints no values; the defaults are our
    choice.

    Lists are made of the memory bank's embeddings, each from the last step that used the sample. So no pass
    over the data is needed, and a resumed run has the same lists.

    Example:
        >>> sampler, bank = NeighborLists([0, 0, 1, 1], batch_size=4, seed=0), MemoryBank(4, 8)
        >>> sampler.attach(bank)
        >>> len(next(sampler.epoch(0)))
        4
    """

    name: ClassVar[str] = "neighbor_lists"

    every: Size = 1
    """Epochs between two lists."""
    neighbors: Size = 20
    """Length of a list."""
    negatives: Size = 3
    """Negatives drawn for each anchor."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._classes = classes_per_batch(
            self.name,
            batch_size=self.batch_size,
            samples_per_class=self.samples_per_class,
            num_classes=int(self._class_of.max()) + 1,
        )
        self._lists: tuple[Tensor, Rows] | None = None

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of epoch ``number``; every ``every`` epochs, new lists are made first."""
        if self._bank is not None and number % self.every == 0 and bool(self._bank.known.all()):
            self._bank.freeze()
        yield from super().epoch(number, iterations)

    def choose_batch(self, bank: MemoryBank, order: Rows, random: np.random.Generator) -> Rows:
        """Return a batch of anchors in random order, each followed by negatives of its list."""
        lists = self._current_lists(bank)
        leads: dict[int, int] = {}  # class to the sample that stands for it
        for anchor in order.tolist():
            if len(leads) == self._classes:
                break
            if int(self._class_of[anchor]) in leads:
                continue
            leads[int(self._class_of[anchor])] = anchor
            drawn = random.permutation(lists[anchor])[: self.negatives]
            for negative in drawn.tolist():
                if len(leads) < self._classes:
                    leads.setdefault(int(self._class_of[negative]), negative)
        return self._with_mates(leads, order)

    def _with_mates(self, leads: dict[int, int], order: Rows) -> Rows:
        """Return each leading sample, followed by other samples of its class in the random order."""
        by_class = order[np.argsort(self._class_of[order], kind="stable")]
        ends = np.cumsum(np.bincount(self._class_of))
        groups = []
        for number, lead in leads.items():
            members = by_class[ends[number - 1] if number else 0 : ends[number]]
            mates = members[members != lead]
            whole = np.concatenate([[lead], mates])
            groups.append(np.resize(whole, self.samples_per_class))  # a small class repeats its samples
        return np.concatenate(groups).astype(np.int64)

    def _current_lists(self, bank: MemoryBank) -> Rows:
        """Return the lists of the embeddings that were frozen last, n x neighbors."""
        if bank.frozen is None:
            bank.freeze()
        assert bank.frozen is not None
        if self._lists is None or self._lists[0] is not bank.frozen:
            classes = torch.from_numpy(self._class_of.astype(np.int64))
            found = nearest_negatives(bank.frozen, classes, self.neighbors)
            self._lists = bank.frozen, found.numpy()
        return self._lists[1]
