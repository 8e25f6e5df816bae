"""Plan of an experiment: the runs still to do, and estimates of their time and disk space."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from levelfield.config import Experiment, TrainingSpec
from levelfield.engine import worker_count
from levelfield.methods import Method
from levelfield.protocol.confirm._confirm import is_scored, rerun_specs
from levelfield.protocol.search._proposals import propose, trial_budget
from levelfield.protocol.search._search import pending_trials, search_id
from levelfield.protocol.search._trials import trial_jobs
from levelfield.protocol.spec._resolve import resolve_experiment
from levelfield.protocol.spec._resolved import ResolvedExperiment
from levelfield.records import RunDirectory, Store, Trial, default_directory, select
from levelfield.train import (
    Speed,
    build_embedder,
    load_development_view,
    measure_speed,
    trained_state_dict,
)
from levelfield.train.checkpoint import WEIGHTS_FILE, has_weights

SMALL_FILES = 4096  # bytes of a run's spec, log, result and provenance
STATE_PER_WEIGHTS = 3  # bytes of a resumable state: weights, and two moments of Adam


@dataclass(frozen=True)
class CostRange:
    """Lower and upper bound of a cost; early stopping decides where in between."""

    low: float
    high: float

    def __add__(self, other: CostRange) -> CostRange:
        return CostRange(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> CostRange:
        return CostRange(self.low * factor, self.high * factor)


@dataclass(frozen=True)
class MethodPlan:
    """Runs of one method, done and to do; ``seconds`` is the time of those to do."""

    method: str
    trials: int
    trials_done: int
    search_done: int
    search_todo: int
    confirm_done: int
    confirm_todo: int
    seconds: CostRange


@dataclass(frozen=True)
class Plan:
    """Finished and remaining work of an experiment, with estimates.

    Attributes:
        methods: Runs of each method.
        scorings_todo: Number of reruns to score on the test set, including the baseline.
        seconds: Remaining seconds, with the workers of the experiment.
        run_seconds: Seconds of one run of the confirmation.
        trial_seconds: Seconds of one run of a trial, which may be shorter.
        basis: Source of the times.
        features: Seconds (within ``seconds``) for the features of a frozen trunk, if they are not cached yet.
        disk: Additional bytes on disk at the end.
        disk_peak: Most additional bytes on disk at any time, with what is deleted on the way.
        free: Free bytes on that disk.
        workers: Number of worker processes.
        notes: Adaptations to the data, one sentence each.
        data: The dataset as it was understood: its split, and the numbers of queries and gallery images.
    """

    methods: tuple[MethodPlan, ...]
    scorings_todo: int
    seconds: CostRange
    run_seconds: CostRange
    trial_seconds: CostRange
    basis: str
    features: float
    disk: int
    disk_peak: int
    free: int
    workers: int
    notes: tuple[str, ...]
    data: str = ""

    @property
    def runs_done(self) -> int:
        """Number of finished runs of all methods."""
        return sum(method.search_done + method.confirm_done for method in self.methods)

    @property
    def runs_todo(self) -> int:
        """Number of remaining runs of all methods; pruning may reduce it."""
        return sum(method.search_todo + method.confirm_todo for method in self.methods)


@dataclass(frozen=True)
class _MethodRuns:
    """Runs of one method: finished ones by directory, remaining ones by count."""

    method: Method
    trials: list[Trial]
    searched: list[RunDirectory]
    search_todo: int
    confirmed: list[RunDirectory]
    confirm_todo: int
    scorings_todo: int


def plan(experiment: Experiment, out: str | Path | None = None) -> Plan:
    """Count the runs, and estimate time and disk space from recorded runs or a short measurement."""
    store = Store(Path(out) if out is not None else default_directory(experiment.name))
    store.check_schema_version()
    resolved = resolve_experiment(experiment)
    work = [
        _sum_repeats([_method_runs(repeat, method, store) for repeat in resolved.repeats])
        for method in resolved.methods
    ]
    trial_seconds, seconds, weights, basis, speed = _run_costs(resolved, work)
    view = load_development_view(
        resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0), resolved.resources
    )
    reruns, folds = experiment.confirm.reruns, resolved.num_folds
    workers = worker_count(experiment.engine)
    searches = len(resolved.methods) * experiment.search.repeats  # run concurrently
    search_width = max(1, min(workers, searches * folds * experiment.search.parallel))
    confirm_width = max(1, min(workers, searches * folds * reruns))
    methods = tuple(
        MethodPlan(
            method=w.method.name,
            trials=trial_budget(resolved, w.method) * experiment.search.repeats,
            trials_done=len(w.trials),
            search_done=len(w.searched),
            search_todo=w.search_todo,
            confirm_done=len(w.confirmed),
            confirm_todo=w.confirm_todo,
            seconds=trial_seconds * (w.search_todo / search_width)
            + seconds * (w.confirm_todo / confirm_width),
        )
        for w in work
    )
    todo = sum(w.search_todo + w.confirm_todo for w in work)
    scorings = sum(w.scorings_todo for w in work)
    if scorings:
        scorings += resolved.baseline_reruns
    views = 1 + resolved.trunk.views
    feature_images = len(view.dataset) * views + view.test_images if todo else 0
    features = speed.feature * feature_images if speed else 0.0
    scoring = scorings * folds * view.test_images * (speed.image if speed else 0.0)
    total = CostRange(features, features) + CostRange(scoring, scoring) * (
        1 / max(1, min(workers, searches * reruns))
    )
    for method in methods:
        total += method.seconds
    arrays = scorings * 2 * len(experiment.metrics) * view.test_images * 4
    state = (speed.state if speed else STATE_PER_WEIGHTS * weights) * max(1, workers) if todo else 0
    kept = speed.feature_bytes * feature_images if speed else 0
    search_todo = sum(w.search_todo for w in work)
    dropped = 0 if experiment.search.keep_weights else search_todo
    disk = todo * SMALL_FILES + (todo - dropped) * weights + arrays + kept
    unrecorded = min(dropped, searches * experiment.search.parallel * folds)  # runs of unfinished rounds
    return Plan(
        methods=methods,
        scorings_todo=scorings,
        seconds=total,
        run_seconds=seconds,
        trial_seconds=trial_seconds,
        basis=basis,
        features=features,
        disk=disk,
        disk_peak=disk + unrecorded * weights + state,
        free=shutil.disk_usage(_nearest_existing(store.root)).free,
        workers=workers,
        notes=resolved.notes,
        data=f"{resolved.data.name}, {resolved.split_description}",
    )


def _method_runs(resolved: ResolvedExperiment, method: Method, store: Store) -> _MethodRuns:
    experiment, wanted = resolved.experiment, trial_budget(resolved, method)
    identity = search_id(resolved, method)
    trials = store.trials(identity)[:wanted]
    searched = [store.run(run) for trial in trials for run in trial.runs]
    begun = [
        store.run(job.directory.name)
        for number, point in pending_trials(resolved, method, trials)
        for job in trial_jobs(resolved, method, store, number, point)
    ]
    finished = [directory for directory in begun if directory.result() is not None]
    reruns = range(experiment.confirm.reruns)
    confirmed, scored = [], 0
    selection = select(trials, method=method.name, search=identity, sign=resolved.sign)
    if len(trials) == wanted and selection.failed is None:
        specs = [s for r in reruns for s in rerun_specs(resolved, method, selection.hyperparameters, r)]
        directories = [store.run(spec.run_id) for spec in specs]
        confirmed = [directory for directory in directories if directory.result() is not None]
        known = store.reruns(selection.selection_id, len(reruns))
        ways = () if resolved.repeat else experiment.confirm.rerank
        scored = sum(
            is_scored(known.get(rerun), experiment.metrics, rerank=() if rerun else ways) for rerun in reruns
        )
    return _MethodRuns(
        method=method,
        trials=trials,
        searched=searched + finished,
        search_todo=(wanted - len(trials)) * resolved.num_folds - len(finished),
        confirmed=confirmed,
        confirm_todo=len(reruns) * resolved.num_folds - len(confirmed),
        scorings_todo=len(reruns) - scored,
    )


def _sum_repeats(repeats: Sequence[_MethodRuns]) -> _MethodRuns:
    """Return the runs of all searches of one method."""
    return _MethodRuns(
        method=repeats[0].method,
        trials=[trial for work in repeats for trial in work.trials],
        searched=[directory for work in repeats for directory in work.searched],
        search_todo=sum(work.search_todo for work in repeats),
        confirmed=[directory for work in repeats for directory in work.confirmed],
        confirm_todo=sum(work.confirm_todo for work in repeats),
        scorings_todo=sum(work.scorings_todo for work in repeats),
    )


def _run_costs(
    resolved: ResolvedExperiment, work: Sequence[_MethodRuns]
) -> tuple[CostRange, CostRange, int, str, Speed | None]:
    """Return seconds of a run of a trial and of the confirmation, bytes of weights, basis, measurement."""
    training, shorter = resolved.experiment.training, resolved.search_training
    same = shorter.max_epochs == training.max_epochs
    trials = _provenances(directory for w in work for directory in w.searched)
    reruns = _provenances(directory for w in work for directory in w.confirmed)
    if recorded := trials | reruns:
        size = _weights_bytes(resolved, list(recorded))
        basis = f"the mean of {len(recorded)} finished runs"
        if same:
            mean = fmean(recorded.values())
            return CostRange(mean, mean), CostRange(mean, mean), size, basis, None
        ratio = training.max_epochs / shorter.max_epochs  # until runs of both lengths are on record
        short = fmean(trials.values()) if trials else fmean(reruns.values()) / ratio
        long = fmean(reruns.values()) if reruns else short * ratio
        return CostRange(short, short), CostRange(long, long), size, basis, None
    method = work[0].method
    (point,) = propose(resolved, method, [0], finished=[])
    spec = resolved.run_spec(method, point, fold=0, seed=resolved.seed("plan", 0, 0))
    speed = measure_speed(spec, resolved.resources)
    basis = f"a few steps of {method.name} measured here; early stopping decides between the bounds"
    trial, rerun = _measured_cost(shorter, speed), _measured_cost(training, speed)
    return trial, rerun, speed.weights, basis, speed


def _provenances(directories: Iterable[RunDirectory]) -> dict[RunDirectory, float]:
    """Return the seconds of finished runs by directory."""
    found = ((directory, directory.provenance()) for directory in directories)
    return {directory: provenance.seconds for directory, provenance in found if provenance is not None}


def _measured_cost(training: TrainingSpec, speed: Speed) -> CostRange:
    """Return the seconds of one run: if early stopping ends it as soon as possible, and never."""
    shortest = training.max_epochs if training.patience is None else training.patience + 1
    low, high = (
        epochs * speed.steps * speed.step
        + (1 + math.ceil(epochs / training.evaluate_every)) * speed.evaluation
        for epochs in (min(shortest, training.max_epochs), training.max_epochs)
    )
    return CostRange(low, high)


def _weights_bytes(resolved: ResolvedExperiment, runs: Sequence[RunDirectory]) -> int:
    """Return the size of a run's weights file: of any run that still has it, else that of a new network."""
    for run in runs:
        if has_weights(run.path):
            return (run.path / WEIGHTS_FILE).stat().st_size
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    state = trained_state_dict(build_embedder(spec, resolved.resources), mode=spec.trunk.mode)
    return sum(tensor.nbytes for tensor in state.values())


def _nearest_existing(path: Path) -> Path:
    path = path.resolve()
    while not path.exists():
        path = path.parent
    return path
