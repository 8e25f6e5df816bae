"""Anchor-neighbor sampling of HTL: batches of classes with similar embeddings."""

from __future__ import annotations

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


def class_distances(embeddings: Tensor, class_of: Tensor, count: int) -> Tensor:
    """Return the mean squared distances between the unit embeddings of all pairs of classes.

    For unit vectors this is ``2 - 2 m m'`` with the class means m.

    Args:
        embeddings: n x D.
        class_of: Class of each embedding, 0 to count-1, (n,).
        count: Number of classes, C.

    Returns:
        C x C; the diagonal is the mean squared distance within a class.

    Example:
        >>> class_distances(torch.eye(2), torch.tensor([0, 1]), 2)
        tensor([[0., 2.],
                [2., 0.]])
    """
    units = F.normalize(embeddings)
    sums = units.new_zeros(count, units.shape[1]).index_add_(0, class_of, units)
    means = sums / torch.bincount(class_of, minlength=count).clamp(min=1)[:, None]
    return 2 - 2 * means @ means.T


def neighborhoods(distances: Tensor, order: Rows, *, count: int, size: int) -> Rows:
    """Return ``count`` classes: anchor classes in the order given, each followed by its nearest classes.

    No class occurs twice: only classes that are not chosen yet are considered.

    Args:
        distances: C x C.
        order: Classes in random order, (C,).
        count: Number of classes to return, at most C.
        size: Classes per neighborhood, with the anchor.

    Example:
        >>> gaps = torch.tensor([[0.0, 9.0, 1.0], [9.0, 0.0, 9.0], [1.0, 9.0, 0.0]])
        >>> neighborhoods(gaps, np.array([2, 1, 0]), count=3, size=2).tolist()
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
    renamed={"neighbourhood": "neighborhood"},  # old spelling
)
@dataclass(kw_only=True, eq=False, repr=False)
class AnchorNeighbor(BankSampler):
    """HTL: random anchor classes, each with its nearest classes, and a few samples of every class.

    Anchor classes are drawn at random. Each is joined by the m - 1 classes that are nearest by the mean
    squared distance of their samples. The batch holds ``samples_per_class`` samples of each class. The paper
    computes these distances once per epoch; this sampler uses the current content of the bank. The paper's
    tree of classes is part of its loss and is not implemented. The paper does not print m; the default of 4
    is our choice.

    Example:
        >>> sampler, bank = AnchorNeighbor([0, 0, 1, 1], batch_size=4, seed=0), MemoryBank(4, 8)
        >>> sampler.attach(bank)
        >>> len(next(sampler.epoch(0)))
        4
    """

    name: ClassVar[str] = "htl"

    neighborhood: Size = 4
    """Classes per neighborhood, m: an anchor class and its m - 1 nearest classes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._classes = classes_per_batch(
            self.name,
            batch_size=self.batch_size,
            samples_per_class=self.samples_per_class,
            num_classes=int(self._class_of.max()) + 1,
        )

    def choose_batch(self, bank: MemoryBank, order: Rows, random: np.random.Generator) -> Rows:
        """Return a batch: classes chosen by their distances, and samples of each in the random order."""
        total = int(self._class_of.max()) + 1
        class_of = torch.from_numpy(self._class_of.astype(np.int64))
        chosen = neighborhoods(
            class_distances(bank.embeddings, class_of, total),
            random.permutation(total),
            count=self._classes,
            size=self.neighborhood,
        )
        groups = self._draw(order, len(order))
        found, first = np.unique(self._class_of[groups[:, 0]], return_index=True)
        return groups[first[np.searchsorted(found, chosen)]].ravel()
