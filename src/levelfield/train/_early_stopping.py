"""Early stopping of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class EarlyStopping:
    """Tracks the best epoch and stops when it is too long ago.

    The first of equal scores stays the best. Without ``patience`` training never stops early.

    Attributes:
        patience: Epochs without a better score before training stops; None for no limit.
        sign: -1 if a lower score is better.
        best_epoch: Epoch of the best score.
        best_score: The best score.

    Example:
        >>> stopping = EarlyStopping(patience=2)
        >>> [stopping.update(epoch, score) for epoch, score in [(0, 0.1), (2, 0.3), (4, 0.2), (6, 0.3)]]
        [True, True, False, False]
        >>> stopping.best_epoch, stopping.should_stop(6)
        (2, True)
        >>> loss = EarlyStopping(patience=2, sign=-1)
        >>> [loss.update(epoch, score) for epoch, score in [(0, 0.1), (2, 0.3), (4, 0.05)]]
        [True, False, True]
    """

    patience: int | None
    sign: int = 1
    best_epoch: int = 0
    best_score: float | None = None

    def update(self, epoch: int, score: float) -> bool:
        """Add a score; return True if it is the best so far."""
        if self.best_score is None or self.sign * score > self.sign * self.best_score:
            self.best_epoch, self.best_score = epoch, score
            return True
        return False

    def should_stop(self, epoch: int) -> bool:
        """Return True if the best epoch is more than ``patience`` epochs before ``epoch``."""
        return self.patience is not None and epoch - self.best_epoch > self.patience
