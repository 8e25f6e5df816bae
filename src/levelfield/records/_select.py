"""Selection of hyperparameters: a pure function of the records of a search."""

from __future__ import annotations

from collections.abc import Sequence

from levelfield.records._models import Selection, Trial


def select(trials: Sequence[Trial], *, method: str, search: str, sign: int = 1) -> Selection:
    """Return the selection: the trial with the best score, the first one if several are equal.

    If every trial failed, the selection has the reason in ``failed``.

    Args:
        trials: Trials of one search.
        method: Name of the method.
        search: Digest of the search.
        sign: -1 if a smaller score is better.

    Example:
        >>> scores = enumerate([0.1, 0.3, 0.2])
        >>> trials = [Trial(number=n, hyperparameters={"margin": n}, score=s) for n, s in scores]
        >>> select(trials, method="triplet", search="0" * 16).hyperparameters
        {'margin': 1}
        >>> select(trials, method="triplet", search="0" * 16, sign=-1).trial
        0
    """
    complete = [(sign * trial.score, -trial.number, trial) for trial in trials if trial.score is not None]
    if not complete:
        reason = trials[0].reason if trials else "there are no trials"
        return Selection(method=method, search=search, failed=f"every trial failed: {reason}")
    _, _, best = max(complete, key=lambda entry: entry[:2])
    return Selection(
        method=method,
        search=search,
        trial=best.number,
        hyperparameters=best.hyperparameters,
        score=best.score,
    )
