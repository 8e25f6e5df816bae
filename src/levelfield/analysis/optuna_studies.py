"""Export of searches as Optuna studies, for the Optuna dashboard and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from levelfield.analysis import Repeat, read_comparison
from levelfield.analysis.importance import infer_search_space
from levelfield.core.errors import UsageError
from levelfield.core.optuna import to_optuna_distribution
from levelfield.core.space import Dimension
from levelfield.records import Trial


@dataclass(frozen=True)
class ExportedStudy:
    """Name and number of trials of an exported study."""

    name: str
    trials: int


def export_study(roots: Sequence[str | Path], file: str | Path) -> list[ExportedStudy]:
    """Write all searches of the experiments in ``roots`` to an SQLite file for Optuna.

    There is one study per method and search, named ``experiment/method``. It has scores, hyperparameters with
    their ranges, fold scores and reasons of failures. An existing file is replaced.

    Args:
        roots: Experiment directories.
        file: Output file, such as ``study.db``.

    Raises:
        UsageError: There are no searches, or two experiments have a search of the same name.
    """
    import optuna

    from levelfield.core.files import atomic_write, wrap_disk_errors

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    wanted = [(name, repeat, sign) for root in roots for name, repeat, sign in _searches(Path(root))]
    names = [name for name, _, _ in wanted]
    if not wanted:
        raise UsageError("these records have no searches; give a directory that `levelfield run` wrote")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"two experiments have a search named {twice[0]}; export them to separate files")
    with wrap_disk_errors(Path(file), remedy="choose another -o"), atomic_write(Path(file)) as temporary:
        storage = optuna.storages.RDBStorage(f"sqlite:///{temporary}")
        for name, repeat, sign in wanted:
            direction: Literal["maximize", "minimize"] = "maximize" if sign > 0 else "minimize"
            study = optuna.create_study(storage=storage, study_name=name, direction=direction)
            study.set_user_attr("metric", repeat.search.run.training.metric if repeat.search else "")
            study.set_user_attr("selected trial", repeat.selection.trial)
            study.add_trials(_frozen_trials(repeat))
        storage.remove_session()
        storage.engine.dispose()
    return [ExportedStudy(name, len(repeat.trials)) for name, repeat, _ in wanted]


def _searches(root: Path) -> list[tuple[str, Repeat, int]]:
    comparison = read_comparison(root)
    metric_info = comparison.metric_infos.get(comparison.experiment.training.metric)
    sign = 1 if metric_info is None else metric_info.sign
    found = []
    for result in comparison.trained:
        for number, repeat in enumerate(result.repeats):
            name = f"{comparison.experiment.name}/{result.method}"
            several = len(result.repeats) > 1
            found.append((f"{name}/search-{number + 1}" if several else name, repeat, sign))
    return found


def _frozen_trials(repeat: Repeat) -> list[Any]:
    """Return the trials of a search as frozen Optuna trials."""
    from optuna.trial import TrialState, create_trial

    space = infer_search_space(repeat.search, repeat.trials)
    trials = []
    for trial in repeat.trials:
        inside = {name: trial.hyperparameters[name] for name in space if name in trial.hyperparameters}
        state = TrialState.COMPLETE if trial.score is not None else TrialState.FAIL
        trials.append(
            create_trial(
                state=TrialState.PRUNED if trial.pruned else state,
                value=trial.score,
                params=inside,
                distributions={name: to_optuna_distribution(space[name]) for name in inside},
                user_attrs=_attributes(trial, space),
            )
        )
    return trials


def _attributes(trial: Trial, searched: Mapping[str, Dimension]) -> dict[str, Any]:
    found: dict[str, Any] = {f"fold {fold}": score for fold, score in enumerate(trial.fold_scores)}
    fixed = {name: value for name, value in trial.hyperparameters.items() if name not in searched}
    return found | ({"reason": trial.reason} if trial.reason else {}) | ({"fixed": fixed} if fixed else {})
