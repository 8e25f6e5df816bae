"""States of the experiments in the watched directories, cached until their files change.

A state comes from the experiment record, the trials and the test scores. Nothing is written and no lock is
taken; running experiments are detected from the lock list of the system.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal

from levelfield.core.errors import LevelfieldError, UsageError
from levelfield.records import ExperimentRecord, MetricInfo, Store, Trial, VerdictRecord

MAX_DEPTH = 3  # directory levels between a root and an experiment
RECENT_SECONDS = 120.0  # changes in this time mean "running" if the system has no lock list
CHECK_SECONDS = 0.5  # minimum time between two scans
State = Literal["running", "finished", "stopped", "unreadable"]
Stamp = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class MethodState:
    """Progress of one method.

    Attributes:
        name: Name of the method.
        trials: Finished trials of all searches.
        trials_wanted: Planned trials.
        reruns: Scored reruns.
        reruns_wanted: Planned reruns.
        best: Best validation score so far.
        score: Mean test score by the main metric, concatenated; None before the confirmation.
    """

    name: str
    trials: int
    trials_wanted: int
    reruns: int
    reruns_wanted: int
    best: float | None
    score: float | None


@dataclass(frozen=True)
class ExperimentState:
    """State of one experiment.

    Attributes:
        key: Hash of the path; used in URLs instead of the path.
        root: Experiment directory.
        relative_path: Experiment directory relative to the watched directory.
        state: "running", "finished", "stopped" or "unreadable".
        version: Hash that changes with the files.
        changed: Time of the last change, seconds since 1970.
        record: Experiment record; None if it cannot be read.
        metric_info: Selection metric; None if unknown.
        methods: Progress of each method.
        problem: Reason why the experiment cannot be read; empty otherwise.
        verdict: Conclusion of the report; None before there is one.
    """

    key: str
    root: Path
    relative_path: str
    state: State
    version: str
    changed: float
    record: ExperimentRecord | None = None
    metric_info: MetricInfo | None = None
    methods: tuple[MethodState, ...] = ()
    problem: str = ""
    verdict: VerdictRecord | None = None

    @property
    def name(self) -> str:
        """Name of the experiment, or of its directory."""
        return self.root.name if self.record is None else self.record.experiment.name

    @property
    def progress(self) -> tuple[int, int]:
        """Finished and planned trials and reruns."""
        done = sum(min(m.trials, m.trials_wanted) + m.reruns for m in self.methods)
        return done, sum(m.trials_wanted + m.reruns_wanted for m in self.methods)

    @property
    def result(self) -> str:
        """Verdict in a few words; before there is one, the leading mean, which may be tied."""
        if self.state == "finished" and self.verdict is not None:
            return self.verdict.short
        if self.metric_info is None:
            return ""
        sign, side = self.metric_info.sign, "highest" if self.metric_info.sign > 0 else "lowest"
        for what, kind in (("score", "test mean"), ("best", "validation score")):
            found = [(sign * value, m.name) for m in self.methods if (value := getattr(m, what)) is not None]
            if found:
                value, name = max(found)
                shown = f"{self.metric_info.shown(sign * value)} {self.metric_info.label}"
                return f"{side} {kind} so far: {shown} ({name})"
        return ""


@dataclass
class _CachedState:
    """Cached state and finished trials of one experiment; finished trials never change."""

    stamp: Stamp = ()
    state: ExperimentState | None = None
    trials: dict[Path, Trial] = field(default_factory=dict)


class ExperimentMonitor:
    """Monitor of all experiments below some directories; it uses modification times.

    Args:
        roots: Directories of experiments, or experiment directories.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise UsageError(
                    f"{root} is not a directory; give a directory that `levelfield run` writes to"
                )
        self.roots = [root.resolve() for root in roots]
        self._caches: dict[Path, _CachedState] = {}
        self._states: dict[str, ExperimentState] = {}
        self._refreshed_at = 0.0
        self._lock = threading.Lock()

    def states(self) -> list[ExperimentState]:
        """Return the states of all experiments, last changed first."""
        with self._lock:
            if time.monotonic() - self._refreshed_at > CHECK_SECONDS:
                self._refresh()
                self._refreshed_at = time.monotonic()
            return sorted(self._states.values(), key=lambda state: (-state.changed, state.relative_path))

    def state(self, key: str) -> ExperimentState | None:
        """Return the state of the experiment with this key; None if there is none."""
        self.states()
        return self._states.get(key)

    @property
    def version(self) -> str:
        """Hash that changes with any experiment."""
        return _hash("".join(state.version for state in self.states()))

    def _refresh(self) -> None:
        held = locked_inodes()
        found: dict[str, ExperimentState] = {}
        for root in self.roots:
            for directory in experiments_below(root):
                cache = self._caches.setdefault(directory, _CachedState())
                running = is_locked(directory, held)
                stamp = (*modification_times(directory), ("running", int(running)))
                if cache.state is None or cache.stamp != stamp:
                    relative_path = str(directory.relative_to(root)) if directory != root else directory.name
                    cache.state = read_experiment_state(
                        directory, relative_path=relative_path, running=running, trials=cache.trials
                    )
                    cache.stamp = stamp
                found[cache.state.key] = cache.state
        self._states = found


def experiments_below(root: Path, depth: int = MAX_DEPTH) -> Iterator[Path]:
    """Yield the experiment directories in ``root`` and a few levels below; links are not followed."""
    if (root / "experiment.json").is_file():
        yield root
        return
    if depth == 0:
        return
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in names:
        if not name.startswith("."):
            yield from experiments_below(root / name, depth - 1)


def modification_times(directory: Path) -> Stamp:
    """Return the modification times of all files that a state depends on."""
    parts = [
        directory / "experiment.json",
        directory / "ledger.jsonl",
        directory / "archive.json",
        directory / "runs",
        directory / "report",
    ]
    for name in ("searches", "confirmations"):
        try:
            with os.scandir(directory / name) as entries:
                parts += sorted(Path(entry.path) for entry in entries if not entry.name.startswith("."))
        except OSError:
            continue
    found = []
    for part in parts:
        try:
            found.append((str(part), part.stat().st_mtime_ns))
        except OSError:
            continue
    return tuple(found)


def locked_inodes() -> set[int] | None:
    """Return the inodes of all locked files; None if the system has no list of locks."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return {int(line.split()[5].split(":")[2]) for line in lines if line.split()[1] != "->"}


def is_locked(directory: Path, held: set[int] | None) -> bool:
    """Return True if a process holds the lock of the experiment; the lock is not taken."""
    lock = directory / ".lock"
    try:
        if held is not None:
            return lock.stat().st_ino in held
        return time.time() - max((directory / "runs").stat().st_mtime, lock.stat().st_mtime) < RECENT_SECONDS
    except OSError:
        return False


def read_experiment_state(
    directory: Path,
    *,
    relative_path: str = "",
    running: bool = False,
    trials: dict[Path, Trial] | None = None,
) -> ExperimentState:
    """Return the state of one experiment; ``problem`` has the reason if it cannot be read.

    Args:
        directory: Experiment directory.
        relative_path: Path in lists. Defaults to the name of the directory.
        running: True if a process runs the experiment.
        trials: Cache of trials by file; new trials are added.
    """
    stamp = modification_times(directory)
    common = {
        "key": _hash(str(directory)),
        "root": directory,
        "relative_path": relative_path or directory.name,
        "version": _hash(f"{stamp}{running}"),
        "changed": max((time_ns for _, time_ns in stamp), default=0) / 1e9,
    }
    try:
        record = Store(directory).experiment_record()
        methods = tuple(_read_methods(directory, record, {} if trials is None else trials))
        metric_info = _main_metric_info(record)
        verdict = Store(directory).verdict()
    except (LevelfieldError, OSError) as error:
        # mypy reads ``**common`` as one type for all fields
        return ExperimentState(**common, state="unreadable", problem=str(error))  # type: ignore[arg-type]
    finished = bool(methods) and all(m.reruns >= m.reruns_wanted for m in methods)
    state: State = "running" if running else "finished" if finished else "stopped"
    found = {"record": record, "metric_info": metric_info, "methods": methods, "verdict": verdict}
    return ExperimentState(**common, **found, state=state)  # type: ignore[arg-type]  # as above


def _read_methods(
    directory: Path, record: ExperimentRecord, trials: dict[Path, Trial]
) -> Iterator[MethodState]:
    store, experiment = Store(directory), record.experiment
    selection_info = record.metric(experiment.training.metric)
    sign = 1 if selection_info is None else selection_info.sign
    for method in experiment.methods:
        searches = record.searches.get(method.name, ())
        found = [trial for search in searches for trial in read_trials(store, search, trials)]
        scores = [sign * trial.score for trial in found if trial.score is not None]
        reruns, score = _read_reruns(store, record, method.name)
        searched = experiment.hyperparameters == "search"
        yield MethodState(
            name=method.name,
            trials=len(found),
            trials_wanted=(experiment.search.trials if searched else 1) * max(1, len(searches)),
            reruns=reruns,
            reruns_wanted=experiment.confirm.reruns * experiment.search.repeats,
            best=sign * max(scores) if scores else None,
            score=score,
        )


def read_trials(store: Store, search: str, known: dict[Path, Trial]) -> list[Trial]:
    """Return the finished trials of a search, in order; trials in the cache are not read again."""
    found: list[Trial] = []
    while True:
        file = store.trial_file(search, len(found))
        trial = known.get(file) or store.trial(search, len(found))
        if trial is None:
            return found
        known[file] = trial
        found.append(trial)


def _read_reruns(store: Store, record: ExperimentRecord, method: str) -> tuple[int, float | None]:
    """Return the number of recorded reruns and their mean; the reruns of a failed search count as done."""
    count, means, experiment = 0, [], record.experiment
    metrics = experiment.metrics
    metric = experiment.training.metric if experiment.training.metric in metrics else metrics[-1]
    for name in record.selections.get(method, ()):
        reruns = store.reruns(name.rpartition("-")[2], experiment.confirm.reruns)
        if not reruns and store.selection(name).failed:
            count += experiment.confirm.reruns
        count += len(reruns)
        found = (rerun.concatenated.get(metric, math.nan) for rerun in reruns.values())
        scores = [score for score in found if math.isfinite(score)]
        if scores:
            means.append(fmean(scores))
    return count, fmean(means) if means else None


def _main_metric_info(record: ExperimentRecord) -> MetricInfo | None:
    return record.metric(record.experiment.training.metric) or next(iter(record.metrics), None)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
