"""The searches of an experiment as Optuna studies, for its dashboard and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from levelfield.compare import Repeat, collect
from levelfield.errors import UsageError
from levelfield.protocol._importance import searched_space
from levelfield.protocol._optimise import distribution_of
from levelfield.records import Trial
from levelfield.space import Dimension


@dataclass(frozen=True)
class ExportedStudy:
    """A study that was written: its name, and how many trials it holds."""

    name: str
    trials: int


def export_study(roots: Sequence[str | Path], file: str | Path) -> list[ExportedStudy]:
    """Write every search of the experiments in ``roots`` into an SQLite file that Optuna opens.

    One study per method and search, called ``experiment/method``. Scores, hyperparameters with the ranges
    they were searched in, the scores of the folds and the reasons of failures are kept. A file that exists
    is replaced as a whole.

    Args:
        roots: Folders that ``levelfield run`` wrote.
        file: Where to, such as ``study.db``.
    """
    import optuna

    from levelfield.files import disk_errors, replacing

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    wanted = [(name, repeat, sign) for root in roots for name, repeat, sign in _searches(Path(root))]
    names = [name for name, _, _ in wanted]
    if not wanted:
        raise UsageError("there are no searches in these records; give a folder of `levelfield run`")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"two of these experiments have a search {twice[0]}; export them into two files")
    with disk_errors(Path(file), remedy="choose another -o"), replacing(Path(file)) as temporary:
        storage = optuna.storages.RDBStorage(f"sqlite:///{temporary}")
        for name, repeat, sign in wanted:
            direction: Literal["maximize", "minimize"] = "maximize" if sign > 0 else "minimize"
            study = optuna.create_study(storage=storage, study_name=name, direction=direction)
            study.set_user_attr("metric", repeat.search.run.training.metric if repeat.search else "")
            study.set_user_attr("selected trial", repeat.selection.trial)
            study.add_trials(_frozen(repeat))
        storage.remove_session()
        storage.engine.dispose()
    return [ExportedStudy(name, len(repeat.trials)) for name, repeat, _ in wanted]


def _searches(root: Path) -> list[tuple[str, Repeat, int]]:
    comparison = collect(root)
    measure = comparison.measures.get(comparison.experiment.training.metric)
    sign = -1 if measure is not None and measure.higher_is_better is False else 1
    found = []
    for result in comparison.trained:
        for number, repeat in enumerate(result.repeats):
            name = f"{comparison.experiment.name}/{result.method}"
            several = len(result.repeats) > 1
            found.append((f"{name}/search-{number + 1}" if several else name, repeat, sign))
    return found


def _frozen(repeat: Repeat) -> list[Any]:
    """The trials of a search as Optuna has them."""
    from optuna.trial import TrialState, create_trial

    space = searched_space(repeat.search, repeat.trials)
    trials = []
    for trial in repeat.trials:
        inside = {name: trial.hyperparameters[name] for name in space if name in trial.hyperparameters}
        state = TrialState.COMPLETE if trial.score is not None else TrialState.FAIL
        trials.append(
            create_trial(
                state=TrialState.PRUNED if trial.pruned else state,
                value=trial.score,
                params=inside,
                distributions={name: distribution_of(space[name]) for name in inside},
                user_attrs=_attributes(trial, space),
            )
        )
    return trials


def _attributes(trial: Trial, searched: Mapping[str, Dimension]) -> dict[str, Any]:
    found: dict[str, Any] = {f"fold {fold}": score for fold, score in enumerate(trial.fold_scores)}
    fixed = {name: value for name, value in trial.hyperparameters.items() if name not in searched}
    return found | ({"reason": trial.reason} if trial.reason else {}) | ({"fixed": fixed} if fixed else {})
