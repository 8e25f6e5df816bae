"""Active runs and remaining time of a running experiment."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from levelfield.records import RunDirectory, Store
from levelfield.reports.web._experiment_states import ExperimentState

ACTIVE_SECONDS = 600.0  # a run without changes for this long is not active
PACE_RUNS = 40  # finished runs that give the pace


@dataclass(frozen=True)
class ActiveRun:
    """Run that is being trained.

    Attributes:
        run_id: Digest of the run.
        description: Loss and fold.
        epoch: Last evaluated epoch; None before the first.
        last_epoch: Maximum number of epochs.
        score: Last validation score, formatted as in tables.
        curve: Epochs and validation scores so far.
    """

    run_id: str
    description: str
    epoch: int | None
    last_epoch: int
    score: str
    curve: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class RunProgress:
    """Progress of an experiment.

    Attributes:
        done: Number of finished runs.
        total: Number of planned runs.
        remaining: Estimated remaining time; None if there are too few finished runs.
    """

    done: int
    total: int
    remaining: timedelta | None

    @property
    def remaining_text(self) -> str:
        """Remaining time as rounded text.

        Example:
            >>> RunProgress(1, 2, timedelta(seconds=130)).remaining_text
            'about 3 minutes left'
        """
        if self.remaining is None:
            return ""
        seconds = self.remaining.total_seconds()
        if seconds < 60:
            return "less than a minute left"
        minutes = math.ceil(seconds / 60)
        if minutes < 120:
            return f"about {minutes} minutes left"
        return (
            f"about {minutes / 60:.1f} hours left"
            if minutes < 2880
            else f"about {minutes / 1440:.1f} days left"
        )


def find_active_runs(state: ExperimentState, *, limit: int = 32) -> list[ActiveRun]:
    """Return the unfinished runs whose files changed recently, last changed first."""
    now, found = time.time(), []
    for path, changed in _unfinished_runs(state.root):
        if now - changed < ACTIVE_SECONDS:
            found.append((changed, path))
    found.sort(reverse=True)
    runs = []
    for _, path in found[:limit]:
        directory = RunDirectory(path)
        try:
            spec, log = directory.spec(), directory.log()
        except Exception:  # being written, or just finished; skip it until the next update
            continue
        last = log[-1] if log else None
        score = last.scores.get(spec.training.metric) if last else None
        shown = "" if score is None or state.metric_info is None else state.metric_info.shown(score)
        description = f"{spec.recipe.loss}, fold {spec.fold + 1}"
        epoch = last.epoch if last else None
        metric = spec.training.metric
        curve = tuple((line.epoch, line.scores[metric]) for line in log if metric in line.scores)
        runs.append(ActiveRun(path.name, description, epoch, spec.training.max_epochs, shown, curve))
    return runs


def _unfinished_runs(root: Path) -> list[tuple[Path, float]]:
    found = []
    try:
        with os.scandir(root / "runs") as entries:
            for entry in entries:
                directory = Path(entry.path)
                if not entry.is_dir(follow_symlinks=False) or (directory / "result.json").exists():
                    continue
                for name in ("epochs.jsonl", "spec.json"):
                    try:
                        found.append((directory, (directory / name).stat().st_mtime))
                        break
                    except OSError:
                        continue
    except OSError:
        pass
    return found


def estimate_progress(state: ExperimentState, *, folds: int) -> RunProgress:
    """Return finished and planned runs, with the remaining time at the pace of the last runs."""
    store, finished = Store(state.root), finish_times(state.root)
    total = sum(m.trials_wanted + m.reruns_wanted for m in state.methods) * folds
    done = min(len(store.runs()) if store.is_archive else len(finished), total)
    return RunProgress(done, total, time_left(finished[-PACE_RUNS:], total - done))


def time_left(finished: Sequence[float], remaining: int) -> timedelta | None:
    """Return the time for ``remaining`` runs at the pace of the ``finished`` times (seconds, sorted).

    Example:
        >>> time_left([0.0, 10.0, 20.0], 6)
        datetime.timedelta(seconds=60)
    """
    if len(finished) < 2 or finished[-1] <= finished[0]:
        return None
    return timedelta(seconds=remaining * (finished[-1] - finished[0]) / (len(finished) - 1))


def finish_times(root: Path) -> list[float]:
    """Return the times at which runs finished (seconds since 1970), sorted."""
    times = []
    try:
        with os.scandir(root / "runs") as entries:
            for entry in entries:
                try:
                    times.append(Path(entry.path, "result.json").stat().st_mtime)
                except OSError:
                    continue
    except OSError:
        return []
    return sorted(times)


def count_folds(state: ExperimentState, store: Store) -> int:
    """Return the number of runs per trial: that of the first trial, else that of the split."""
    assert state.record is not None
    for searches in state.record.searches.values():
        for search in searches:
            first = store.trial(search, 0)
            if first is not None and first.runs:
                return len(first.runs)
    folds = state.record.experiment.split.options.get("folds", 4)
    return folds if isinstance(folds, int) else 4


def format_time(seconds: float) -> str:
    """Format seconds since 1970 as local date and time."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")
