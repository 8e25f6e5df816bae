"""Anchor-neighbour sampling of HTL: classes that lie close to each other share a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.batches import register
from levelfield.batches._embedded import BankSampler
from levelfield.batches._sampler import classes_per_batch
from levelfield.batches.memory_bank import MemoryBank
from levelfield.data import Rows
from levelfield.options import Size


def class_distances(embeddings: Tensor, class_of: Tensor, count: int) -> Tensor:
    """The mean squared distance between the unit embeddings of two classes, for every two of ``count``.

    Of unit vectors that is ``2 - 2 m m'`` with the classes' means m: no pair need be formed.

    Args:
        embeddings: n x D.
        class_of: n, in 0..count-1.
        count: C.

    Returns:
        C x C; the diagonal is the spread of a class around itself.

    Example:
        >>> class_distances(torch.eye(2), torch.tensor([0, 1]), 2)
        tensor([[0., 2.],
                [2., 0.]])
    """
    units = F.normalize(embeddings)
    sums = units.new_zeros(count, units.shape[1]).index_add_(0, class_of, units)
    means = sums / torch.bincount(class_of, minlength=count).clamp(min=1)[:, None]
    return 2 - 2 * means @ means.T


def neighbourhoods(distances: Tensor, order: Rows, *, count: int, size: int) -> Rows:
    """Anchor classes in the order given, each followed by its nearest classes, until there are ``count``.

    No class comes twice: of the nearest ones those count that are still free.

    Args:
        distances: C x C.
        order: The classes in random order, (C,).
        count: Classes wanted, at most C.
        size: Classes in a neighbourhood, the anchor included.

    Example:
        >>> gaps = torch.tensor([[0.0, 9.0, 1.0], [9.0, 0.0, 9.0], [1.0, 9.0, 0.0]])
        >>> neighbourhoods(gaps, np.array([2, 1, 0]), count=3, size=2).tolist()
        [2, 0, 1]
    """
    free = distances.clone().fill_diagonal_(torch.inf)
    chosen: list[int] = []
    for anchor in order.tolist():
        if len(chosen) == count:
            break
        if anchor in chosen:
            continue
        free[:, anchor] = torch.inf
        chosen.append(anchor)
        wanted = min(size - 1, count - len(chosen))
        nearest = free[anchor].topk(wanted, largest=False).indices
        free[:, nearest] = torch.inf
        chosen += nearest.tolist()
    return np.array(chosen, dtype=np.int64)


@register(
    "htl",
    needs_bank=True,
    paper="Deep Metric Learning with Hierarchical Triplet Loss",
    year=2018,
)
@dataclass(kw_only=True, eq=False, repr=False)
class AnchorNeighbour(BankSampler):
    """HTL: random classes, each with the classes nearest to it, a few samples of each.

    l' anchor classes are drawn at random, the m - 1 classes nearest to each by the mean squared distance of
    their samples join it, and t samples of each class make the batch. The paper builds its tree of classes
    from the same distances, once an epoch; here they are those of the bank at the moment. The tree itself is
    for the paper's margin, which is not here: this is its sampling. How many classes make a neighbourhood in
    its experiments we do not know; 4 is ours.

    Example:
        >>> sampler, bank = AnchorNeighbour([0, 0, 1, 1], batch_size=4, seed=0), MemoryBank(4, 8)
        >>> sampler.attach(bank)
        >>> len(next(sampler.epoch(0)))
        4
    """

    name: ClassVar[str] = "htl"

    neighbourhood: Size = 4
    """m: an anchor class and its m - 1 nearest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._classes = classes_per_batch(
            self.name,
            batch_size=self.batch_size,
            samples_per_class=self.samples_per_class,
            num_classes=int(self._class_of.max()) + 1,
        )

    def from_bank(self, bank: MemoryBank, order: Rows, random: np.random.Generator) -> Rows:
        """The classes by their distances, then the first samples of each in the random order."""
        total = int(self._class_of.max()) + 1
        class_of = torch.from_numpy(self._class_of.astype(np.int64))
        chosen = neighbourhoods(
            class_distances(bank.embeddings, class_of, total),
            random.permutation(total),
            count=self._classes,
            size=self.neighbourhood,
        )
        groups = self._draw(order, len(order))
        found, first = np.unique(self._class_of[groups[:, 0]], return_index=True)
        return groups[first[np.searchsorted(found, chosen)]].ravel()
