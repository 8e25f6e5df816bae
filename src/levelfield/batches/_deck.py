"""Dealing without replacement: what makes an epoch exact."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from levelfield.data import Rows


class Deck:
    """Deals items in random order: each one once before any comes again, never one twice in a hand.

    A hand larger than the deck holds every item once; what is missing is drawn with replacement.

    Example:
        >>> deck = Deck(np.arange(3), np.random.default_rng(0))
        >>> sorted(deck.deal(3).tolist()), len(deck.deal(5))
        ([0, 1, 2], 5)
    """

    def __init__(self, items: Rows, random: np.random.Generator) -> None:
        self._items = items
        self._random = random
        self._left = items[:0]

    def deal(self, count: int) -> Rows:
        """The next ``count`` items."""
        missing = count - len(self._items)
        if missing > 0:
            return np.concatenate(
                [self._random.permutation(self._items), self._random.choice(self._items, missing)]
            )
        if not len(self._left):
            self._left = self._random.permutation(self._items)
        hand, self._left = self._left[:count], self._left[count:]
        short = count - len(hand)
        if short > 0:
            fresh = self._random.permutation(self._items)
            # The last cards of the old round stay in the new one, but must not come twice in this hand.
            chosen = np.flatnonzero(~np.isin(fresh, hand))[:short]
            hand = np.concatenate([hand, fresh[chosen]])
            self._left = np.delete(fresh, chosen)
        return hand


class ClassDecks:
    """One deck of rows per class, shuffled when the class is first asked for.

    Example:
        >>> decks = ClassDecks(group_rows(np.array([0, 1, 0, 1])), np.random.default_rng(0))
        >>> sorted(decks.deal(1, 2).tolist())
        [1, 3]
    """

    def __init__(self, rows_of_class: list[Rows], random: np.random.Generator) -> None:
        self._rows = rows_of_class
        self._random = random
        self._decks: dict[int, Deck] = {}

    def deal(self, class_number: int, count: int) -> Rows:
        """``count`` rows of one class (its position in the list of classes, not its label)."""
        deck = self._decks.get(class_number)
        if deck is None:
            deck = self._decks[class_number] = Deck(self._rows[class_number], self._random)
        return deck.deal(count)


def group_rows(labels: npt.NDArray[np.int64]) -> list[Rows]:
    """The rows of each class that occurs, in the order of the labels.

    Example:
        >>> [rows.tolist() for rows in group_rows(np.array([7, 3, 7]))]
        [[1], [0, 2]]
    """
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    return np.split(order.astype(np.int64), starts)
