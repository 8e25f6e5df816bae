"""Results of an experiment, read from its records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from levelfield.analysis._metric_info import read_metric_infos
from levelfield.config import Experiment
from levelfield.core.errors import RunError
from levelfield.records import (
    SETTINGS,
    ExperimentRecord,
    LedgerLine,
    MetricInfo,
    Rerun,
    Revision,
    Search,
    SearchLuck,
    Selection,
    Store,
    Trial,
)
from levelfield.stats import Interval, t_interval


@dataclass(frozen=True)
class Repeat:
    """One search of a method with its selection and reruns.

    Attributes:
        selection: Frozen selection.
        confirmation: Digest under which the reruns are recorded.
        reruns: Reruns by number, including failed ones.
        search: Record of the search; None if there was none, or it is not on record.
        trials: Trials of the search, in order.
    """

    selection: Selection
    confirmation: str
    reruns: dict[int, Rerun]
    search: Search | None
    trials: list[Trial]

    @property
    def fixed(self) -> Mapping[str, object]:
        """Hyperparameters that the experiment sets and that are not searched."""
        return {} if self.search is None else self.search.run.hyperparameters

    @property
    def scored(self) -> list[Rerun]:
        """Reruns that have scores."""
        return [rerun for rerun in self.reruns.values() if rerun.failed is None]

    def scores(self, setting: str, metric: str) -> list[float]:
        """Return the score of each rerun that has the metric."""
        return [rerun.scores(setting)[metric] for rerun in self.scored if metric in rerun.scores(setting)]


@dataclass(frozen=True)
class MethodResult:
    """Test scores of one method, over all its searches and reruns.

    Attributes:
        method: Name of the method.
        repeats: One per search with a selection. The baseline has one, without a search.
        metrics: Test metrics.
    """

    method: str
    repeats: tuple[Repeat, ...]
    metrics: tuple[str, ...]

    @property
    def selection(self) -> Selection:
        """Selection of the first search."""
        return self.repeats[0].selection

    @property
    def search(self) -> Search | None:
        """Record of the first search."""
        return self.repeats[0].search

    @property
    def trials(self) -> list[Trial]:
        """Trials of the first search."""
        return self.repeats[0].trials

    @property
    def scores(self) -> dict[str, dict[str, list[float]]]:
        """Scores of all reruns, as ``scores[setting][metric]``."""
        return {
            setting: {
                metric: [score for repeat in self.repeats for score in repeat.scores(setting, metric)]
                for metric in self.metrics
            }
            for setting in SETTINGS
        }

    @property
    def best_epochs(self) -> list[int]:
        """Best epoch of each fold of each rerun; empty for the baseline."""
        return [epoch for repeat in self.repeats for rerun in repeat.scored for epoch in rerun.best_epochs]

    @property
    def failed(self) -> list[str]:
        """Reasons of failed reruns."""
        reruns = [rerun for repeat in self.repeats for rerun in repeat.reruns.values()]
        return [rerun.failed for rerun in reruns if rerun.failed is not None]

    @property
    def pruned(self) -> int:
        """Number of pruned trials."""
        return sum(trial.estimate is not None for repeat in self.repeats for trial in repeat.trials)

    @property
    def diverged(self) -> int:
        """Number of failed trials."""
        missing = sum(trial.score is None for repeat in self.repeats for trial in repeat.trials)
        return missing - self.pruned

    @property
    def collapsed(self) -> int:
        """Number of trials that learned nothing in at least one fold."""
        return sum(bool(trial.collapse) for repeat in self.repeats for trial in repeat.trials)

    @property
    def mean_best_epoch(self) -> float | None:
        """Mean of the best epochs ("Max. Epoch" in the papers); None for the baseline."""
        return sum(self.best_epochs) / len(self.best_epochs) if self.best_epochs else None

    def replicates(self, setting: str, metric: str) -> list[float]:
        """Return independent scores: of the reruns, or with several searches the mean of each search."""
        values = [scores for repeat in self.repeats if (scores := repeat.scores(setting, metric))]
        if len(self.repeats) > 1:
            return [float(np.mean(scores)) for scores in values]
        return values[0] if values else []

    def seed_interval(self, setting: str, metric: str) -> Interval:
        """Return mean and 95% t-interval over the replicates; NaN with n = 0 if there are none.

        It covers luck of the seeds, and with several searches luck of the search, but not the choice of test
        classes. Tables and pages print :meth:`Analysis.interval`, which covers all of them.
        """
        values = self.replicates(setting, metric)
        if not values:
            return Interval(math.nan, math.nan, 0)
        if not np.isfinite(values).all():  # rho of a collapsed embedding
            return Interval(float(np.mean(values)), math.nan, len(values))
        return t_interval(values)


@dataclass(frozen=True)
class Comparison:
    """Experiment with the results of all its methods.

    Attributes:
        experiment: Resolved experiment, without machine-specific settings.
        split: Description of the split.
        leaky: True if it was tuned with test feedback.
        baseline: Name of the network before training: "untrained" or "pretrained".
        metric_infos: Labels, units and directions of the metrics, by name.
        results: One per method, the baseline first.
        ledger: Openings of the test set.
        revisions: Versions of the experiment, oldest first.
        notes: Settings that were adapted to the data, and notes in the ledger, one sentence each.
        luck: Results of search-luck studies on this dataset and trunk, from neighboring directories.
    """

    experiment: Experiment
    split: str
    leaky: bool
    baseline: str
    metric_infos: Mapping[str, MetricInfo]
    results: tuple[MethodResult, ...]
    ledger: tuple[LedgerLine, ...]
    revisions: tuple[Revision, ...]
    notes: tuple[str, ...] = ()
    luck: tuple[SearchLuck, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Test metrics, in the order of the experiment."""
        return self.experiment.metrics

    @property
    def trained(self) -> list[MethodResult]:
        """Results of the methods, without the baseline."""
        return [result for result in self.results if result.method != self.baseline]

    @property
    def main_metric(self) -> str:
        """Selection metric, or the last test metric if the selection metric was not tested."""
        selected = self.experiment.training.metric
        return selected if selected in self.metrics else self.metrics[-1]


def read_comparison(root: str | Path) -> Comparison:
    """Read the results of an experiment.

    Args:
        root: Experiment directory, finished or not.
    """
    store = Store(Path(root))
    index, ledger = store.experiment_record(), store.ledger()
    names = [index.baseline, *(method.name for method in index.experiment.methods)]
    return Comparison(
        experiment=index.experiment,
        split=index.split,
        leaky=index.leaky,
        baseline=index.baseline,
        metric_infos=read_metric_infos(index),
        results=tuple(_read_result(store, index, name) for name in names if name in index.selections),
        ledger=tuple(ledger),
        revisions=tuple(store.revisions()),
        notes=(*index.notes, *_ledger_notes(ledger)),
        luck=tuple(
            found for found in store.sibling_search_luck() if _is_same_setting(found, index.experiment)
        ),
    )


def _ledger_notes(lines: list[LedgerLine]) -> list[str]:
    """Return the notes in a ledger: the plan, departures from it, other openings of the same test set."""
    return [
        f"Departs from its plan: {'; '.join(line.departures)}. Reason: {line.note.rstrip('.')}."
        if line.departures
        else line.note
        for line in lines
        if line.note
    ]


def _is_same_setting(luck: SearchLuck, experiment: Experiment) -> bool:
    ours = (experiment.dataset.name, experiment.trunk.name, experiment.trunk.mode)
    return (luck.dataset, luck.trunk, luck.mode) == ours and luck.metric == experiment.training.metric


def _read_result(store: Store, index: ExperimentRecord, name: str) -> MethodResult:
    experiment = index.experiment
    searches: tuple[str | None, ...] = index.searches.get(name, (None,))
    if len(searches) != len(index.selections[name]):
        raise RunError(
            f"{store.root}/experiment.json is damaged: {name} has {len(index.selections[name])} selections "
            f"of {len(searches)} searches; restore it from a copy"
        )
    frozen = zip(index.selections[name], index.selection_ids(name), searches, strict=True)
    return MethodResult(
        method=name,
        repeats=tuple(
            Repeat(
                selection=store.selection(selection),
                confirmation=confirmation,
                reruns=store.reruns(confirmation, experiment.confirm.reruns),
                search=None if search is None else store.search(search),
                trials=[] if search is None else store.trials(search)[: experiment.search.trials],
            )
            for selection, confirmation, search in frozen
        ),
        metrics=experiment.metrics,
    )
