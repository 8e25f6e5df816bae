"""The plan: what an experiment would still compute, and what that costs, before anything is paid."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from levelfield.config import Experiment
from levelfield.engine import workers_of
from levelfield.methods import Method
from levelfield.protocol._confirm import is_scored, rerun_specs
from levelfield.protocol._proposals import budget, propose
from levelfield.protocol._resolve import resolve
from levelfield.protocol._resolved import Resolved
from levelfield.protocol._search import next_round, search_id
from levelfield.protocol._trials import trial_jobs
from levelfield.records import RunFolder, Store, Trial, select
from levelfield.train import Speed, development, measure_speed

SMALL_FILES = 4096  # spec, log, result and provenance of a run


@dataclass(frozen=True)
class Range:
    """A cost between two bounds: early stopping decides where in between."""

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)


@dataclass(frozen=True)
class MethodPlan:
    """One method's runs, and the seconds of those to do."""

    method: str
    trials: int
    trials_done: int
    search_done: int
    search_todo: int
    confirm_done: int
    confirm_todo: int
    seconds: Range


@dataclass(frozen=True)
class Plan:
    """What is done, what is to do, and the estimate.

    Attributes:
        methods: The runs of each method.
        scorings_todo: Reruns to score on the test set, the baseline's too.
        seconds: The whole time, with the workers that the experiment asks for.
        run_seconds: The time of one run.
        basis: What the times come from.
        features: Seconds within ``seconds`` for features of a frozen trunk, if they are not kept already.
        disk: Bytes that the records will take in addition.
        free: Bytes that are free on that disk.
        workers: Processes.
        notes: What would be adapted to the data, one sentence each.
    """

    methods: tuple[MethodPlan, ...]
    scorings_todo: int
    seconds: Range
    run_seconds: Range
    basis: str
    features: float
    disk: int
    free: int
    workers: int
    notes: tuple[str, ...]

    @property
    def runs_done(self) -> int:
        """Finished runs of all methods."""
        return sum(method.search_done + method.confirm_done for method in self.methods)

    @property
    def runs_todo(self) -> int:
        """Runs of all methods that are to do, at most: pruning may save some."""
        return sum(method.search_todo + method.confirm_todo for method in self.methods)


@dataclass(frozen=True)
class _Work:
    """The runs of one method: finished ones by folder, the others by count."""

    method: Method
    trials: list[Trial]
    searched: list[RunFolder]
    search_todo: int
    confirmed: list[RunFolder]
    confirm_todo: int
    scorings_todo: int


def plan(experiment: Experiment, out: str | Path | None = None) -> Plan:
    """Count the runs, and estimate time and disk from recorded runs, or else from a short measurement."""
    store = Store(Path(out) if out is not None else Path("runs") / experiment.name)
    store.check_version()
    resolved = resolve(experiment)
    work = [
        _together([_work(repeat, method, store) for repeat in resolved.repeats])
        for method in resolved.methods
    ]
    seconds, size, basis, speed = _run_cost(resolved, work)
    view = development(resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0), resolved.resources)
    reruns, folds = experiment.confirm.reruns, resolved.num_folds
    workers = workers_of(experiment.engine)
    searches = len(resolved.methods) * experiment.search.repeats  # which go on at once
    search_width = max(1, min(workers, searches * folds * experiment.search.parallel))
    confirm_width = max(1, min(workers, searches * folds * reruns))
    methods = tuple(
        MethodPlan(
            method=w.method.name,
            trials=budget(resolved, w.method) * experiment.search.repeats,
            trials_done=len(w.trials),
            search_done=len(w.searched),
            search_todo=w.search_todo,
            confirm_done=len(w.confirmed),
            confirm_todo=w.confirm_todo,
            seconds=seconds * (w.search_todo / search_width + w.confirm_todo / confirm_width),
        )
        for w in work
    )
    todo = sum(w.search_todo + w.confirm_todo for w in work)
    scorings = sum(w.scorings_todo for w in work)
    if scorings:
        scorings += 1 if resolved.pretrained else reruns
    views = 1 + resolved.trunk.views
    feature_images = len(view.dataset) * views + view.test_images if todo else 0
    features = speed.feature * feature_images if speed else 0.0
    scoring = scorings * folds * view.test_images * (speed.image if speed else 0.0)
    total = Range(features, features) + Range(scoring, scoring) * (
        1 / max(1, min(workers, searches * reruns))
    )
    for method in methods:
        total += method.seconds
    arrays = scorings * 2 * len(experiment.metrics) * view.test_images * 4
    state = speed.state * max(1, workers) if speed and todo else 0
    kept = speed.feature_bytes * feature_images if speed else 0
    return Plan(
        methods=methods,
        scorings_todo=scorings,
        seconds=total,
        run_seconds=seconds,
        basis=basis,
        features=features,
        disk=todo * size + arrays + state + kept,
        free=shutil.disk_usage(_existing(store.root)).free,
        workers=workers,
        notes=resolved.notes,
    )


def _work(resolved: Resolved, method: Method, store: Store) -> _Work:
    experiment, wanted = resolved.experiment, budget(resolved, method)
    identity = search_id(resolved, method)
    trials = store.trials(identity)[:wanted]
    searched = [store.run(run) for trial in trials for run in trial.runs]
    begun = [
        RunFolder(job.folder)
        for number, point in next_round(resolved, method, trials)
        for job in trial_jobs(resolved, method, store, number, point)
    ]
    finished = [folder for folder in begun if folder.result() is not None]
    reruns = range(experiment.confirm.reruns)
    confirmed, scored = [], 0
    selection = select(trials, method=method.name, search=identity, sign=resolved.sign)
    if len(trials) == wanted and selection.failed is None:
        specs = [s for r in reruns for s in rerun_specs(resolved, method, selection.hyperparameters, r)]
        folders = [store.run(spec.run_id) for spec in specs]
        confirmed = [folder for folder in folders if folder.result() is not None]
        known = store.reruns(selection.selection_id, len(reruns))
        ways = () if resolved.repeat else experiment.confirm.rerank
        scored = sum(
            is_scored(known.get(rerun), experiment.metrics, rerank=() if rerun else ways) for rerun in reruns
        )
    return _Work(
        method=method,
        trials=trials,
        searched=searched + finished,
        search_todo=(wanted - len(trials)) * resolved.num_folds - len(finished),
        confirmed=confirmed,
        confirm_todo=len(reruns) * resolved.num_folds - len(confirmed),
        scorings_todo=len(reruns) - scored,
    )


def _together(repeats: Sequence[_Work]) -> _Work:
    """The work of all searches of one method."""
    return _Work(
        method=repeats[0].method,
        trials=[trial for work in repeats for trial in work.trials],
        searched=[folder for work in repeats for folder in work.searched],
        search_todo=sum(work.search_todo for work in repeats),
        confirmed=[folder for work in repeats for folder in work.confirmed],
        confirm_todo=sum(work.confirm_todo for work in repeats),
        scorings_todo=sum(work.scorings_todo for work in repeats),
    )


def _run_cost(resolved: Resolved, work: Sequence[_Work]) -> tuple[Range, int, str, Speed | None]:
    """Seconds and bytes of one run, what they come from, and the measurement if there was one."""
    done = [folder for w in work for folder in (*w.searched, *w.confirmed)]
    recorded = [(folder, found) for folder in done if (found := folder.provenance()) is not None]
    if recorded:
        mean = fmean(provenance.seconds for _, provenance in recorded)
        size = fmean(folder.size() for folder, _ in recorded)
        return Range(mean, mean), round(size), f"the mean of {len(recorded)} finished runs", None
    method = work[0].method
    (point,) = propose(resolved, method, [0], finished=[])
    spec = resolved.run_spec(method, point, fold=0, seed=resolved.seed("plan", 0, 0))
    speed = measure_speed(spec, resolved.resources)
    training = resolved.experiment.training
    shortest = training.max_epochs if training.patience is None else training.patience + 1
    seconds = Range(
        *(
            epochs * speed.steps * speed.step
            + (1 + math.ceil(epochs / training.evaluate_every)) * speed.evaluation
            for epochs in (min(shortest, training.max_epochs), training.max_epochs)
        )
    )
    basis = f"a few steps of {method.name} measured here; early stopping decides between the bounds"
    return seconds, speed.weights + SMALL_FILES, basis, speed


def _existing(path: Path) -> Path:
    path = path.resolve()
    while not path.exists():
        path = path.parent
    return path
