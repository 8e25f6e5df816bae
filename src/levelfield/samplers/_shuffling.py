"""Sampling without replacement, in shuffled rounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from levelfield.data import Rows


class ShuffledCycle:
    """Endless random order of items: every item occurs once before any item repeats.

    One call of :meth:`take` never returns an item twice, unless it asks for more items than there are. Then
    it returns every item once and draws the rest with replacement.

    Example:
        >>> cycle = ShuffledCycle(np.arange(3), np.random.default_rng(0))
        >>> sorted(cycle.take(3).tolist()), len(cycle.take(5))
        ([0, 1, 2], 5)
    """

    def __init__(self, items: Rows, random: np.random.Generator) -> None:
        self._items = items
        self._random = random
        self._remaining = items[:0]

    def take(self, count: int) -> Rows:
        """Return the next ``count`` items."""
        missing = count - len(self._items)
        if missing > 0:
            return np.concatenate(
                [self._random.permutation(self._items), self._random.choice(self._items, missing)]
            )
        if not len(self._remaining):
            self._remaining = self._random.permutation(self._items)
        taken, self._remaining = self._remaining[:count], self._remaining[count:]
        short = count - len(taken)
        if short > 0:
            next_round = self._random.permutation(self._items)
            # Skip items that are already taken; they stay in the next round.
            chosen = np.flatnonzero(~np.isin(next_round, taken))[:short]
            taken = np.concatenate([taken, next_round[chosen]])
            self._remaining = np.delete(next_round, chosen)
        return taken


class ClassCycles:
    """One :class:`ShuffledCycle` of rows per class, created when the class is first used.

    Example:
        >>> cycles = ClassCycles(group_rows(np.array([0, 1, 0, 1])), np.random.default_rng(0))
        >>> sorted(cycles.take(1, 2).tolist())
        [1, 3]
    """

    def __init__(self, rows_of_class: list[Rows], random: np.random.Generator) -> None:
        self._rows = rows_of_class
        self._random = random
        self._cycles: dict[int, ShuffledCycle] = {}

    def take(self, class_number: int, count: int) -> Rows:
        """Return ``count`` rows of one class, given by its position in the list of classes."""
        cycle = self._cycles.get(class_number)
        if cycle is None:
            cycle = self._cycles[class_number] = ShuffledCycle(self._rows[class_number], self._random)
        return cycle.take(count)


def group_rows(labels: npt.NDArray[np.int64]) -> list[Rows]:
    """Return the rows of each class, in the order of the labels.

    Example:
        >>> [rows.tolist() for rows in group_rows(np.array([7, 3, 7]))]
        [[1], [0, 2]]
    """
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    return np.split(order.astype(np.int64), starts)
