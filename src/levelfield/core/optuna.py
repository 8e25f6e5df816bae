"""Search spaces and finished trials as Optuna objects."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any

from levelfield.core.space import Choice, Dimension, Float, Int, Space, Value


def build_study(
    space: Space, complete: Sequence[tuple[dict[str, Value], float]], *, sampler: Any = None
) -> Any:
    """Return an in-memory Optuna study with these complete trials, each as hyperparameters and score."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {name: to_optuna_distribution(dimension) for name, dimension in space.items()}
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for hyperparameters, score in complete:
        inside = {name: hyperparameters[name] for name in space}
        trial = optuna.trial.create_trial(params=inside, distributions=distributions, value=score)
        study.add_trial(_make_immutable(trial))
    return study


def _make_immutable(trial: Any) -> Any:
    """Give a finished trial a cheap ``deepcopy``; Optuna spends most of its time copying trials."""
    trial.__class__ = _immutable_trial_class()
    return trial


@cache
def _immutable_trial_class() -> Any:
    from optuna.trial import FrozenTrial

    class ImmutableTrial(FrozenTrial):
        def __deepcopy__(self, memo: dict[int, Any]) -> ImmutableTrial:
            return copy.copy(self)

    return ImmutableTrial


def to_optuna_distribution(dimension: Dimension) -> Any:
    """Return the Optuna distribution of a search range."""
    from optuna import distributions

    match dimension:
        case Choice(options=options):
            return distributions.CategoricalDistribution(options)
        case Int(low=low, high=high, log=log, step=step):
            return distributions.IntDistribution(low, high, log=log, step=1 if log else step)
        case Float(low=low, high=high, log=log):
            return distributions.FloatDistribution(low, high, log=log)
