"""Conversion of an experiment's records to tracker records. Read-only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from levelfield.config import Scalar
from levelfield.core.seeds import run_seed
from levelfield.records import (
    SETTINGS,
    ExperimentRecord,
    Rerun,
    RunDirectory,
    RunSpec,
    Search,
    Selection,
    Store,
    Trial,
)
from levelfield.track._record import MetricPoint, Status, TrackerRecord

REPORT_FILES = ("index.html", "results.csv", "pairs.csv", "results.md")


@dataclass(frozen=True)
class RunPosition:
    """Position of a run in the experiment."""

    method: str
    repeat: int
    stage: str
    number: int
    fold: int


class RecordReader:
    """Reader of one experiment's records, for repeated use while they grow.

    The positions of runs are cached, so that polling thousands of finished runs is cheap.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._positions: dict[str, RunPosition | None] = {}
        self._searches: dict[str, Search | None] = {}

    def read(self, is_final: Callable[[str], bool] = lambda key: False) -> Iterator[TrackerRecord]:
        """Yield every tracker record, parents first.

        Args:
            is_final: Returns True for keys of runs that were sent completely; these are skipped unread.
        """
        index = self._store.experiment_record()
        yield _experiment_record(self._store, index)
        runs: dict[tuple[str, int, str, int], list[tuple[RunPosition, RunDirectory]]] = {}
        for position, directory in self._positioned_runs(index):
            runs.setdefault((position.method, position.repeat, position.stage, position.number), []).append(
                (position, directory)
            )
        for method in (index.baseline, *(spec.name for spec in index.experiment.methods)):
            selections = self._selections(index, method)
            reruns = {
                repeat: self._store.reruns(selection_id, index.experiment.confirm.reruns)
                for repeat, selection_id in enumerate(
                    index.selection_ids(method) if method in index.selections else ()
                )
            }
            yield _method_record(index, method, selections, reruns)
            chosen = [dict(selection.hyperparameters) for selection in selections]
            for repeat, search_id in enumerate(index.searches.get(method, ())):
                trials = {trial.number: trial for trial in self._store.trials(search_id)}
                started = {key[3] for key in runs if key[:3] == (method, repeat, "search")}
                for number in sorted({*trials, *started}):
                    own = runs.get((method, repeat, "search", number), [])
                    tried = trials.get(number) or dict(own[0][1].spec().hyperparameters)
                    parent = _trial_record(index, method, repeat, number, tried)
                    yield parent
                    yield from self._run_records(own, parent, is_final)
            for repeat in range(index.experiment.search.repeats):
                started = {key[3] for key in runs if key[:3] == (method, repeat, "confirm")}
                for number in sorted({*reruns.get(repeat, {}), *started}):
                    rerun = reruns.get(repeat, {}).get(number)
                    wanted = chosen[repeat] if repeat < len(chosen) else {}
                    parent = _rerun_record(index, method, repeat, number, chosen=wanted, rerun=rerun)
                    yield parent
                    yield from self._run_records(
                        runs.get((method, repeat, "confirm", number), []), parent, is_final
                    )

    def _selections(self, index: ExperimentRecord, method: str) -> list[Selection]:
        return [self._store.selection(name) for name in index.selections.get(method, ())]

    def _run_records(
        self,
        runs: list[tuple[RunPosition, RunDirectory]],
        parent: TrackerRecord,
        is_final: Callable[[str], bool],
    ) -> Iterator[TrackerRecord]:
        for position, directory in sorted(runs, key=lambda item: item[0].fold):
            if not is_final(directory.path.name):
                yield _run_record(position, directory, parent)

    def _positioned_runs(self, index: ExperimentRecord) -> Iterator[tuple[RunPosition, RunDirectory]]:
        """Yield the runs of the current experiment, not those of an earlier version of its file."""
        for directory in self._store.runs():
            run_id = directory.path.name
            if run_id not in self._positions:
                if not directory.begun:
                    continue
                position = self._position(index, directory.spec())
                if position is None and not all(self._searches.values()):
                    continue  # its search has no record yet
                self._positions[run_id] = position
            if (position := self._positions[run_id]) is not None:
                yield position, directory

    def _position(self, index: ExperimentRecord, spec: RunSpec) -> RunPosition | None:
        seed, settings = index.experiment.seed, index.experiment
        stages = {"search": settings.search.trials, "confirm": settings.confirm.reruns}
        for method, searches in index.searches.items():
            for repeat, search_id in enumerate(searches):
                if not self._belongs_to_search(search_id, spec):
                    continue
                for stage, count in stages.items():
                    for number in range(count):
                        if run_seed(seed, stage, number, spec.fold, repeat=repeat) == spec.seed:
                            return RunPosition(method, repeat, stage, number, spec.fold)
        return None

    def _belongs_to_search(self, search_id: str, spec: RunSpec) -> bool:
        """Return True if the spec equals that of the search except for fold, seed and searched values."""
        if self._searches.get(search_id) is None:
            self._searches[search_id] = self._store.search(search_id)
        search = self._searches[search_id]
        if search is None:
            return False
        fixed = search.run.hyperparameters
        if any(spec.hyperparameters.get(name) != value for name, value in fixed.items()):
            return False
        if set(spec.hyperparameters) - set(fixed) - set(search.space):
            return False
        common = {"fold": 0, "seed": 0, "hyperparameters": {}}
        return spec.model_copy(update=common) == search.run.model_copy(update=common)


def _name(index: ExperimentRecord, method: str, repeat: int, rest: str) -> str:
    several = index.experiment.search.repeats > 1
    return f"{method}/search-{repeat + 1}/{rest}" if several else f"{method}/{rest}"


def _experiment_record(store: Store, index: ExperimentRecord) -> TrackerRecord:
    experiment = index.experiment
    files = _report_files(store)
    settings = experiment.model_dump(mode="json", exclude={"methods", "engine", "plugins", "track"})
    parameters = {"split": index.split, "leaky": index.leaky, **_flatten(settings)}
    parameters["methods"] = ", ".join(method.name for method in experiment.methods)
    verdict = store.verdict() if files else None
    return TrackerRecord(
        key="experiment",
        kind="experiment",
        name=experiment.name,
        status="complete" if files else "running",
        parameters=parameters,
        files=files,
        verdict="" if verdict is None else verdict.text,
    )


def _report_files(store: Store) -> tuple[Path, ...]:
    """Return the report's files once it is complete; its HTML page is written last."""
    if not (store.report_directory / REPORT_FILES[0]).exists():
        return ()
    return tuple(file for name in REPORT_FILES if (file := store.report_directory / name).exists())


def _method_record(
    index: ExperimentRecord,
    method: str,
    selections: list[Selection],
    reruns: Mapping[int, Mapping[int, Rerun]],
) -> TrackerRecord:
    scored = [rerun for group in reruns.values() for rerun in group.values() if rerun.failed is None]
    wanted = 1 if method == index.baseline else index.experiment.confirm.reruns
    finished = bool(selections) and all(
        len(reruns.get(repeat, {})) >= wanted for repeat in range(len(selections))
    )
    scores = {
        f"test/{setting}/{metric}": fmean(values)
        for setting in SETTINGS
        for metric in index.experiment.metrics
        if (values := [v for r in scored if math.isfinite(v := r.scores(setting).get(metric, math.nan))])
    }
    first = selections[0] if selections else None
    if first is not None and first.score is not None:
        scores["validation/selected"] = first.score
    failed = first.failed if first is not None else None
    return TrackerRecord(
        key=f"method/{method}",
        kind="method",
        name=method,
        parent="experiment",
        status="failed" if failed else "complete" if finished else "running",
        parameters=dict(first.hyperparameters) if first is not None else {},
        scores=scores,
        reason=failed or "",
    )


def _trial_record(
    index: ExperimentRecord, method: str, repeat: int, number: int, found: Trial | dict[str, Scalar]
) -> TrackerRecord:
    """Return the record of a finished trial, or of a running one given its hyperparameters."""
    status: Status = "running"
    scores: dict[str, float] = {}
    trial = found if isinstance(found, Trial) else None
    if trial is not None:
        status = "pruned" if trial.pruned else "complete" if trial.score is not None else "failed"
        scores = {f"fold-{fold}": score for fold, score in enumerate(trial.fold_scores) if score is not None}
        if trial.score is not None:
            scores["score"] = trial.score
    return TrackerRecord(
        key=f"trial/{index.searches[method][repeat]}/{number:04d}/{method}",
        kind="trial",
        name=_name(index, method, repeat, f"trial-{number:04d}"),
        parent=f"method/{method}",
        status=status,
        parameters=found.hyperparameters if isinstance(found, Trial) else found,
        scores=scores,
        reason="" if trial is None else trial.reason,
    )


def _rerun_record(
    index: ExperimentRecord,
    method: str,
    repeat: int,
    number: int,
    *,
    chosen: dict[str, Scalar],
    rerun: Rerun | None,
) -> TrackerRecord:
    scores = {}
    if rerun is not None:
        scores = {
            f"test/{setting}/{metric}": value
            for setting in SETTINGS
            for metric, value in rerun.scores(setting).items()
            if math.isfinite(value)  # tools refuse infinity and NaN
        }
    confirmation = index.selection_ids(method)[repeat] if method in index.selections else "open"
    return TrackerRecord(
        key=f"rerun/{confirmation}/{number:02d}/{method}",
        kind="rerun",
        name=_name(index, method, repeat, f"rerun-{number:02d}"),
        parent=f"method/{method}",
        status="running" if rerun is None else "failed" if rerun.failed else "complete",
        parameters=chosen,
        scores=scores,
        reason=(rerun.failed or "") if rerun is not None else "",
    )


def _run_record(position: RunPosition, directory: RunDirectory, parent: TrackerRecord) -> TrackerRecord:
    spec, result = directory.spec(), directory.result()
    points = tuple(
        MetricPoint(
            line.epoch,
            {
                **({} if line.loss is None else {"loss": line.loss}),
                **{f"validation/{name}": value for name, value in line.scores.items()},
            },
        )
        for line in directory.log()
    )
    scores: dict[str, float] = {}
    if result is not None:
        scores = {f"best/{name}": value for name, value in result.validation.items()}
        scores["best_epoch"] = float(result.best_epoch)
    parameters = {
        **spec.hyperparameters,
        "fold": spec.fold,
        "seed": spec.seed,
        "loss": spec.recipe.loss,
        "miner": spec.recipe.miner or "none",
        "sampler": spec.recipe.sampler,
    }
    return TrackerRecord(
        key=directory.path.name,
        kind="run",
        name=f"{parent.name}/fold-{position.fold}",
        parent=parent.key,
        status="running" if result is None else "complete" if result.status == "complete" else "failed",
        parameters=parameters,
        points=points,
        scores=scores,
        reason=result.reason if result is not None else "",
    )


def _flatten(values: Mapping[str, object], prefix: str = "") -> dict[str, Scalar]:
    """Flatten nested settings to dotted names; lists become text, and unset values are left out."""
    found: dict[str, Scalar] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            found[prefix + name] = ", ".join(str(item) for item in value)
        elif isinstance(value, bool | int | float | str):
            found[prefix + name] = value
    return found
