"""When a run has been measured enough."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Plateau:
    """Remembers the best epoch and says when it lies too far back.

    The first of equal scores stays the best. Without ``patience`` it never stops.

    Example:
        >>> plateau = Plateau(patience=2)
        >>> [plateau.update(epoch, score) for epoch, score in [(0, 0.1), (2, 0.3), (4, 0.2), (6, 0.3)]]
        [True, True, False, False]
        >>> plateau.best_epoch, plateau.should_stop(6)
        (2, True)
        >>> loss = Plateau(patience=2, sign=-1)
        >>> [loss.update(epoch, score) for epoch, score in [(0, 0.1), (2, 0.3), (4, 0.05)]]
        [True, False, True]
    """

    patience: int | None
    sign: int = 1  # -1 where a smaller score is better
    best_epoch: int = 0
    best_score: float | None = None

    def update(self, epoch: int, score: float) -> bool:
        """Take a measurement; True if it is the best so far."""
        if self.best_score is None or self.sign * score > self.sign * self.best_score:
            self.best_epoch, self.best_score = epoch, score
            return True
        return False

    def should_stop(self, epoch: int) -> bool:
        """Whether the best epoch lies more than ``patience`` epochs before ``epoch``."""
        return self.patience is not None and epoch - self.best_epoch > self.patience
