"""Importance of hyperparameters, computed from the trials of a search."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from levelfield.core.optuna import build_study
from levelfield.core.space import Choice, Dimension, Float, Int, Space, Value
from levelfield.records import Search, Trial

MIN_TRIALS = 4
LOG_RATIO = 1000  # a wider range of positive values must have been searched on a log scale


def compute_importance(
    space: Space, trials: Sequence[Trial], *, higher_is_better: bool = True
) -> dict[str, float]:
    """Compute the importance of each hyperparameter, most important first; the values sum to 1.

    The method is PED-ANOVA of Optuna. It compares the distribution of the best tenth of the trials (at least
    two) with that of all trials. Empty with fewer than four complete trials, or if no hyperparameter varies.

    Args:
        space: Search space.
        trials: Recorded trials.
        higher_is_better: Direction of the scores.

    Example:
        >>> points = [{"a": i / 9, "b": i * 7 % 10 / 9} for i in range(10)]
        >>> trials = [Trial(number=i, hyperparameters=point, score=i) for i, point in enumerate(points)]
        >>> found = compute_importance({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)}, trials)
        >>> list(found), round(sum(found.values()), 6)
        (['a', 'b'], 1.0)
    """
    sign = 1 if higher_is_better else -1
    done = [(trial.hyperparameters, sign * trial.score) for trial in trials if trial.score is not None]
    varied = {
        name: dimension
        for name, dimension in space.items()
        if len({hyperparameters.get(name) for hyperparameters, _ in done}) > 1
    }
    if len(done) < MIN_TRIALS or not varied:
        return {}
    if len(varied) == 1:
        return dict.fromkeys(varied, 1.0)
    import optuna

    study = build_study(varied, done)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some Optuna releases mark PED-ANOVA as experimental
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in found.items()}


def infer_search_space(search: Search | None, trials: Sequence[Trial]) -> dict[str, Dimension]:
    """Return the space of a search on record.

    If the search is not recorded, the space is the range of the tried values.

    Args:
        search: Record of the search, if any.
        trials: Recorded trials of the search.

    Example:
        >>> infer_search_space(None, [Trial(number=n, hyperparameters={"k": n}) for n in (0, 4)])
        {'k': Int(low=0, high=4, log=False, step=1)}
    """
    known = {} if search is None else search.dimensions()
    names = dict.fromkeys(name for trial in trials for name in trial.hyperparameters)
    space = {}
    for name in names:
        values = [trial.hyperparameters[name] for trial in trials if name in trial.hyperparameters]
        space[name] = known.get(name) or _range_of(values)
    return space


def _range_of(values: Sequence[Value]) -> Dimension:
    if any(isinstance(value, bool | str) for value in values):
        return Choice(*dict.fromkeys(values))
    numbers = [value for value in values if isinstance(value, int | float)]
    if all(isinstance(value, int) for value in numbers):
        return Int(int(min(numbers)), int(max(numbers)))
    low, high = float(min(numbers)), float(max(numbers))
    return Float(low, high, log=low > 0 and high / low >= LOG_RATIO)
