"""Results: what the confirmations say, read from the records alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.records import SETTINGS, Index, Store, Trial, experiment_record
from levelfield.stats import Interval, t_interval


@dataclass(frozen=True)
class Result:
    """One method's test scores over its reruns.

    Attributes:
        method: Its name.
        selection: The frozen choice.
        confirmation: The name under which its reruns are recorded.
        scores: ``scores[setting][metric]`` is the list of the reruns' scores.
        best_epochs: Of every fold of every rerun; empty for the untrained baseline.
        trials: The method's search, trial by trial.
        failed: Why reruns failed, one reason each.
    """

    method: str
    selection: dict[str, Any]
    confirmation: str
    scores: dict[str, dict[str, list[float]]]
    best_epochs: list[int]
    trials: list[dict[str, Any]]
    failed: list[str]

    @property
    def pruned(self) -> int:
        """How many trials were ended early because they could no longer win."""
        return sum("estimate" in trial for trial in self.trials)

    @property
    def diverged(self) -> int:
        """How many trials failed."""
        return sum(trial["score"] is None for trial in self.trials) - self.pruned

    def interval(self, setting: str, metric: str) -> Interval:
        """Mean and 95% t-interval over the reruns."""
        return t_interval(self.scores[setting][metric])


@dataclass(frozen=True)
class Comparison:
    """Everything a report shows of one experiment; ``baseline`` names the row before training."""

    experiment: dict[str, Any]
    split: str
    leaky: bool
    baseline: str
    metrics: tuple[str, ...]
    results: tuple[Result, ...]
    ledger: tuple[dict[str, Any], ...]
    revisions: tuple[dict[str, Any], ...]

    @property
    def trained(self) -> list[Result]:
        """The results of the methods, without the baseline."""
        return [result for result in self.results if result.method != self.baseline]


def collect(root: str | Path) -> Comparison:
    """Read an experiment's folder."""
    store = Store(Path(root))
    index = store.index()
    names = [index.baseline, *(method.name for method in index.experiment.methods)]
    found = [_result(store, index, name) for name in names if name in index.selections]
    return Comparison(
        experiment=experiment_record(index.experiment),
        split=index.split,
        leaky=index.leaky,
        baseline=index.baseline,
        metrics=index.experiment.metrics,
        results=tuple(found),
        ledger=tuple(line.model_dump() for line in store.ledger()),
        revisions=tuple(
            {"time": revision.time, "experiment": experiment_record(revision.experiment)}
            for revision in store.revisions()
        ),
    )


def _result(store: Store, index: Index, name: str) -> Result:
    experiment = index.experiment
    found = store.reruns(index.selection_id(name), experiment.confirm.reruns).values()
    good = [rerun for rerun in found if rerun.failed is None]
    trials = store.trials(index.searches[name]) if name in index.searches else []
    return Result(
        method=name,
        selection=store.selection(index.selections[name]).model_dump(exclude_none=True),
        confirmation=index.selection_id(name),
        scores={
            setting: {
                m: [rerun.scores(setting)[m] for rerun in good if m in rerun.scores(setting)]
                for m in experiment.metrics
            }
            for setting in SETTINGS
        },
        best_epochs=[epoch for rerun in good for epoch in rerun.best_epochs],
        trials=[_as_dict(trial) for trial in trials[: experiment.search.trials]],
        failed=[rerun.failed for rerun in found if rerun.failed is not None],
    )


def _as_dict(trial: Trial) -> dict[str, Any]:
    exclude = set() if trial.pruned else {"estimate"}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in trial.model_dump(exclude=exclude).items()}
