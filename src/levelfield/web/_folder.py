"""What lies in the folders that are watched: one short state per experiment, kept until its files change.

A state is made from the index, the trials and the test scores; run folders are only counted. Nothing is
written, and no lock is taken: whether a command works on an experiment is read from the system's own list.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal

from levelfield.errors import LevelfieldError, UsageError
from levelfield.records import Index, Measure, Store, Trial

DEPTH = 3  # folders between a root and an experiment
RECENT_SECONDS = 120.0  # where the system does not tell who holds a lock
CHECK_SECONDS = 0.5  # the files are looked at no more often than this
State = Literal["running", "finished", "stopped", "unreadable"]
Stamp = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class MethodState:
    """How far one method is.

    Attributes:
        name: Its name.
        trials: Finished trials, of all its searches.
        trials_wanted: Of how many.
        reruns: Scored reruns.
        reruns_wanted: Of how many.
        best: The best validation score so far.
        score: Its mean test score by the main metric, concatenated; None before the confirmation.
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
    """What lists show of one experiment.

    Attributes:
        key: What addresses it: a hash of its path, so that no address holds a path.
        root: Its folder.
        place: Its folder, as seen from the folder that is watched.
        state: Whether a command works on it now, whether all is done, or what else.
        version: Changes with its files.
        changed: When its files last changed, seconds since 1970.
        index: What the folder holds; None if it cannot be read.
        measure: What scores are of; None if unknown.
        methods: How far each method is.
        problem: Why it cannot be read.
    """

    key: str
    root: Path
    place: str
    state: State
    version: str
    changed: float
    index: Index | None = None
    measure: Measure | None = None
    methods: tuple[MethodState, ...] = ()
    problem: str = ""

    @property
    def name(self) -> str:
        """The experiment's name, or that of its folder."""
        return self.root.name if self.index is None else self.index.experiment.name

    @property
    def progress(self) -> tuple[int, int]:
        """Trials and reruns that are done, and all of them."""
        done = sum(min(m.trials, m.trials_wanted) + m.reruns for m in self.methods)
        return done, sum(m.trials_wanted + m.reruns_wanted for m in self.methods)

    @property
    def best(self) -> str:
        """The best method and its score: on the test set if that is open, else in validation."""
        if self.measure is None:
            return ""
        sign = -1.0 if self.measure.higher_is_better is False else 1.0
        for what, kind in (("score", "test"), ("best", "validation")):
            found = [(sign * value, m.name) for m in self.methods if (value := getattr(m, what)) is not None]
            if found:
                value, name = max(found)
                return f"{name}: {self.measure.shown(sign * value)} {self.measure.label} ({kind})"
        return ""


@dataclass
class _Cache:
    """What is remembered of one experiment between two looks; trials that are finished never change."""

    stamp: Stamp = ()
    state: ExperimentState | None = None
    trials: dict[Path, Trial] = field(default_factory=dict)


class Catalogue:
    """All experiments below some folders, kept up to date by modification times.

    Args:
        roots: Folders of experiments, or experiments.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise UsageError(f"{root} is no folder; give the folder that `levelfield run` writes into")
        self.roots = [root.resolve() for root in roots]
        self._caches: dict[Path, _Cache] = {}
        self._states: dict[str, ExperimentState] = {}
        self._looked = 0.0
        self._lock = threading.Lock()

    def states(self) -> list[ExperimentState]:
        """All experiments, last changed first."""
        with self._lock:
            if time.monotonic() - self._looked > CHECK_SECONDS:
                self._look()
                self._looked = time.monotonic()
            return sorted(self._states.values(), key=lambda state: (-state.changed, state.place))

    def state(self, key: str) -> ExperimentState | None:
        """The experiment of this key; None if there is none."""
        self.states()
        return self._states.get(key)

    @property
    def version(self) -> str:
        """Changes with any experiment."""
        return _hash("".join(state.version for state in self.states()))

    def _look(self) -> None:
        held = held_locks()
        found: dict[str, ExperimentState] = {}
        for root in self.roots:
            for folder in experiments_below(root):
                cache = self._caches.setdefault(folder, _Cache())
                running = is_locked(folder, held)
                stamp = (*stamp_of(folder), ("running", int(running)))
                if cache.state is None or cache.stamp != stamp:
                    place = str(folder.relative_to(root)) if folder != root else folder.name
                    cache.state = read_state(folder, place=place, running=running, trials=cache.trials)
                    cache.stamp = stamp
                found[cache.state.key] = cache.state
        self._states = found


def experiments_below(root: Path, depth: int = DEPTH) -> Iterator[Path]:
    """The experiments in ``root`` and a few levels below; links that lead elsewhere are not followed."""
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


def stamp_of(folder: Path) -> Stamp:
    """The modification times of all that a state is made from."""
    parts = [folder / "experiment.json", folder / "ledger.jsonl", folder / "runs", folder / "report"]
    for name in ("searches", "confirmations"):
        try:
            with os.scandir(folder / name) as entries:
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


def held_locks() -> set[int] | None:
    """The inodes of all files that some process holds a lock on; None where the system does not tell."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return {int(line.split()[5].split(":")[2]) for line in lines if line.split()[1] != "->"}


def is_locked(folder: Path, held: set[int] | None) -> bool:
    """Whether a command works on the experiment now, without taking its lock for a moment."""
    lock = folder / ".lock"
    try:
        if held is not None:
            return lock.stat().st_ino in held
        return time.time() - max((folder / "runs").stat().st_mtime, lock.stat().st_mtime) < RECENT_SECONDS
    except OSError:
        return False


def read_state(
    folder: Path, *, place: str = "", running: bool = False, trials: dict[Path, Trial] | None = None
) -> ExperimentState:
    """The state of one experiment; one that cannot be read says why.

    Args:
        folder: What ``levelfield run`` wrote.
        place: Its name in lists.
        running: Whether a command works on it.
        trials: Trials that were read before, by file; new ones are added.
    """
    stamp = stamp_of(folder)
    common = {
        "key": _hash(str(folder)),
        "root": folder,
        "place": place or folder.name,
        "version": _hash(f"{stamp}{running}"),
        "changed": max((time_ns for _, time_ns in stamp), default=0) / 1e9,
    }
    try:
        index = Store(folder).index()
        methods = tuple(_methods(folder, index, {} if trials is None else trials))
        measure = _main_measure(index)
    except (LevelfieldError, OSError) as error:
        return ExperimentState(**common, state="unreadable", problem=str(error))  # type: ignore[arg-type]
    finished = bool(methods) and all(m.reruns >= m.reruns_wanted for m in methods)
    state: State = "running" if running else "finished" if finished else "stopped"
    return ExperimentState(**common, state=state, index=index, measure=measure, methods=methods)  # type: ignore[arg-type]


def _methods(folder: Path, index: Index, trials: dict[Path, Trial]) -> Iterator[MethodState]:
    store, experiment = Store(folder), index.experiment
    selects = index.measure(experiment.training.metric)
    sign = -1.0 if selects is not None and selects.higher_is_better is False else 1.0
    for method in experiment.methods:
        searches = index.searches.get(method.name, ())
        found = [trial for search in searches for trial in known_trials(store, search, trials)]
        scores = [sign * trial.score for trial in found if trial.score is not None]
        reruns, score = _tested(store, index, method.name)
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


def known_trials(store: Store, search: str, known: dict[Path, Trial]) -> list[Trial]:
    """The finished trials of a search, in order; those read before are not read again."""
    found: list[Trial] = []
    while True:
        file = store.trial_file(search, len(found))
        trial = known.get(file) or store.trial(search, len(found))
        if trial is None:
            return found
        known[file] = trial
        found.append(trial)


def _tested(store: Store, index: Index, method: str) -> tuple[int, float | None]:
    """How many reruns are recorded, and their mean; a search that failed for good counts as done."""
    count, means, experiment = 0, [], index.experiment
    metrics = experiment.metrics
    metric = experiment.training.metric if experiment.training.metric in metrics else metrics[-1]
    for name in index.selections.get(method, ()):
        reruns = store.reruns(name.rpartition("-")[2], experiment.confirm.reruns)
        if not reruns and store.selection(name).failed:
            count += experiment.confirm.reruns
        count += len(reruns)
        scores = [rerun.concatenated[metric] for rerun in reruns.values() if metric in rerun.concatenated]
        if scores:
            means.append(fmean(scores))
    return count, fmean(means) if means else None


def _main_measure(index: Index) -> Measure | None:
    return index.measure(index.experiment.training.metric) or next(iter(index.measures), None)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
