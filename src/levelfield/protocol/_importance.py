"""Which hyperparameters mattered in a search, read from its trials."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from levelfield.compare import Trial
from levelfield.config import MethodSpec
from levelfield.errors import UsageError
from levelfield.protocol._optimise import study_of
from levelfield.space import Choice, Dimension, Float, Int, Space, Value

FEWEST_TRIALS = 4
SURELY_LOG = 1000  # nothing else spreads its trials over so wide a range of positive numbers


def importance(space: Space, trials: Sequence[Trial]) -> dict[str, float]:
    """The share of each hyperparameter in reaching the best scores, most important first; sums to 1.

    PED-ANOVA, as Optuna computes it: how much the best tenth of the trials (at least two) differ from all
    in where they lie. Empty with fewer than four complete trials or nothing that varies.

    Args:
        space: What was searched.
        trials: As recorded.

    Example:
        >>> from levelfield.compare import Trial
        >>> points = [{"a": i / 9, "b": i * 7 % 10 / 9} for i in range(10)]
        >>> trials = [Trial(number=i, hyperparameters=point, score=i) for i, point in enumerate(points)]
        >>> found = importance({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)}, trials)
        >>> list(found), round(sum(found.values()), 6)
        (['a', 'b'], 1.0)
    """
    done = [(trial.hyperparameters, trial.score) for trial in trials if trial.score is not None]
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


def searched_space(spec: MethodSpec, trials: Sequence[Trial]) -> dict[str, Dimension]:
    """What a search on record ranged over.

    The method's space where it is known here and holds what was tried; for a method whose file is not
    loaded, or of another version, the range of the values tried.

    Args:
        spec: The method's entry in the recorded experiment.
        trials: Its recorded trials.
    """
    from levelfield import methods

    try:
        known: Space = methods.resolve(spec).space
    except UsageError:
        known = {}
    names = dict.fromkeys(name for trial in trials for name in trial.hyperparameters)
    space = {}
    for name in names:
        values = [trial.hyperparameters[name] for trial in trials if name in trial.hyperparameters]
        dimension = known.get(name)
        holds = dimension is not None and all(dimension.contains(value) for value in values)
        space[name] = dimension if dimension is not None and holds else _range_of(values)
    return space


def _range_of(values: Sequence[Value]) -> Dimension:
    if any(isinstance(value, bool | str) for value in values):
        return Choice(*dict.fromkeys(values))
    numbers = [value for value in values if isinstance(value, int | float)]
    if all(isinstance(value, int) for value in numbers):
        return Int(int(min(numbers)), int(max(numbers)))
    low, high = float(min(numbers)), float(max(numbers))
    return Float(low, high, log=low > 0 and high / low >= SURELY_LOG)
