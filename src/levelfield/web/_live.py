"""A running experiment, looked at closely: runs in flight, the pace, the time that is left."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from levelfield.records import RunFolder, Store
from levelfield.web._folder import ExperimentState

QUIET_SECONDS = 600.0  # a run that has not been heard of for this long is not in flight
PACE_RUNS = 40  # the last so many finished runs give the pace


@dataclass(frozen=True)
class FlyingRun:
    """A run that is being trained.

    Attributes:
        run_id: Its name.
        what: Its losses and fold, in words.
        epoch: The last epoch that was measured; None before the first.
        last_epoch: Where it ends at the latest.
        score: The last validation score, as tables print it.
        curve: Epochs and validation scores so far.
    """

    run_id: str
    what: str
    epoch: int | None
    last_epoch: int
    score: str
    curve: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Pace:
    """How fast an experiment goes.

    Attributes:
        done: Finished runs.
        total: Runs of the whole plan, as far as it is known.
        left: The time that is left if it goes on like this; None if nothing can be said yet.
    """

    done: int
    total: int
    left: timedelta | None

    @property
    def left_in_words(self) -> str:
        """The time left, rounded.

        Example:
            >>> Pace(1, 2, timedelta(seconds=130)).left_in_words
            'about 3 minutes left'
        """
        if self.left is None:
            return ""
        seconds = self.left.total_seconds()
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


def flying_runs(state: ExperimentState, *, limit: int = 32) -> list[FlyingRun]:
    """The runs without a result whose files changed a short while ago, last changed first."""
    now, found = time.time(), []
    for path, changed in _unfinished(state.root):
        if now - changed < QUIET_SECONDS:
            found.append((changed, path))
    found.sort(reverse=True)
    runs = []
    for _, path in found[:limit]:
        folder = RunFolder(path)
        try:
            spec, log = folder.spec(), folder.log()
        except Exception:  # being written at this moment, or just finished; the next look will tell
            continue
        last = log[-1] if log else None
        score = last.scores.get(spec.training.metric) if last else None
        shown = "" if score is None or state.measure is None else state.measure.shown(score)
        what = f"{spec.recipe.loss}, fold {spec.fold + 1}"
        epoch = last.epoch if last else None
        metric = spec.training.metric
        curve = tuple((line.epoch, line.scores[metric]) for line in log if metric in line.scores)
        runs.append(FlyingRun(path.name, what, epoch, spec.training.max_epochs, shown, curve))
    return runs


def _unfinished(root: Path) -> list[tuple[Path, float]]:
    found = []
    try:
        with os.scandir(root / "runs") as entries:
            for entry in entries:
                folder = Path(entry.path)
                if not entry.is_dir(follow_symlinks=False) or (folder / "result.json").exists():
                    continue
                for name in ("epochs.jsonl", "spec.json"):
                    try:
                        found.append((folder, (folder / name).stat().st_mtime))
                        break
                    except OSError:
                        continue
    except OSError:
        pass
    return found


def pace_of(state: ExperimentState, *, folds: int) -> Pace:
    """How many runs are done, of how many, and how long the rest takes at the pace of the last ones."""
    finished = finish_times(state.root)
    total = sum(m.trials_wanted + m.reruns_wanted for m in state.methods) * folds
    done = min(len(finished), total)
    return Pace(done, total, time_left(finished[-PACE_RUNS:], total - done))


def time_left(finished: Sequence[float], remaining: int) -> timedelta | None:
    """The time that ``remaining`` runs take at the pace of those that ``finished`` (seconds, in order).

    Example:
        >>> time_left([0.0, 10.0, 20.0], 6)
        datetime.timedelta(seconds=60)
    """
    if len(finished) < 2 or finished[-1] <= finished[0]:
        return None
    return timedelta(seconds=remaining * (finished[-1] - finished[0]) / (len(finished) - 1))


def finish_times(root: Path) -> list[float]:
    """When each finished run wrote its result, in order."""
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


def folds_of(state: ExperimentState, store: Store) -> int:
    """How many runs a trial has: as many as the first one had, else as the split plan says."""
    assert state.index is not None
    for searches in state.index.searches.values():
        for search in searches:
            first = store.trial(search, 0)
            if first is not None and first.runs:
                return len(first.runs)
    folds = state.index.experiment.split.options.get("folds", 4)
    return folds if isinstance(folds, int) else 4


def shown_time(seconds: float) -> str:
    """A moment as local date and time."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")
