"""Which hyperparameters mattered in a search, read from its trials."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from levelfield.protocol._optimise import study_of
from levelfield.records import Search, Trial
from levelfield.space import Choice, Dimension, Float, Int, Space, Value

FEWEST_TRIALS = 4
SURELY_LOG = 1000  # nothing else spreads its trials over so wide a range of positive numbers


def importance(space: Space, trials: Sequence[Trial], *, higher_is_better: bool = True) -> dict[str, float]:
    """The share of each hyperparameter in reaching the best scores, most important first; sums to 1.

    PED-ANOVA, as Optuna computes it: how much the best tenth of the trials (at least two) differ from all
    in where they lie. Empty with fewer than four complete trials or nothing that varies.

    Args:
        space: What was searched.
        trials: As recorded.
        higher_is_better: Which scores are the best.

    Example:
        >>> points = [{"a": i / 9, "b": i * 7 % 10 / 9} for i in range(10)]
        >>> trials = [Trial(number=i, hyperparameters=point, score=i) for i, point in enumerate(points)]
        >>> found = importance({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)}, trials)
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
    if len(done) < FEWEST_TRIALS or not varied:
        return {}
    if len(varied) == 1:
        return dict.fromkeys(varied, 1.0)
    import optuna

    study = study_of(varied, done)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PED-ANOVA is marked experimental in some releases
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in found.items()}


def searched_space(search: Search | None, trials: Sequence[Trial]) -> dict[str, Dimension]:
    """What a search on record ranged over.

    In a folder of schema 1 that is not on record; there it is the range of the values tried.

    Args:
        search: What is on record of the search.
        trials: Its recorded trials.

    Example:
        >>> searched_space(None, [Trial(number=n, hyperparameters={"k": n}) for n in (0, 4)])
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
    return Float(low, high, log=low > 0 and high / low >= SURELY_LOG)
