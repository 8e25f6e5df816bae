"""Results: what the confirmations say, read from the records alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from levelfield.compare._measures import measures_of
from levelfield.config import Experiment
from levelfield.records import (
    SETTINGS,
    Index,
    LedgerLine,
    Measure,
    Revision,
    Search,
    Selection,
    Store,
    Trial,
)
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
        search: What its search depends on; None if there was none, or it is not on record.
        trials: The method's search, trial by trial.
        failed: Why reruns failed, one reason each.
    """

    method: str
    selection: Selection
    confirmation: str
    scores: dict[str, dict[str, list[float]]]
    best_epochs: list[int]
    search: Search | None
    trials: list[Trial]
    failed: list[str]

    @property
    def pruned(self) -> int:
        """How many trials were ended early because they could no longer win."""
        return sum(trial.estimate is not None for trial in self.trials)

    @property
    def diverged(self) -> int:
        """How many trials failed."""
        return sum(trial.score is None for trial in self.trials) - self.pruned

    @property
    def mean_best_epoch(self) -> float | None:
        """The mean of the best epochs ("Max. Epoch" in the papers); None for the baseline."""
        return sum(self.best_epochs) / len(self.best_epochs) if self.best_epochs else None

    def interval(self, setting: str, metric: str) -> Interval:
        """Mean and 95% t-interval over the reruns; of no reruns a NaN with n = 0."""
        values = self.scores[setting][metric]
        return t_interval(values) if values else Interval(float("nan"), float("nan"), 0)


@dataclass(frozen=True)
class Comparison:
    """Everything a report shows of one experiment.

    Attributes:
        experiment: As resolved, without what belongs to a machine.
        split: The split plan in words.
        leaky: Whether it was tuned with test feedback.
        baseline: The name of the row before training.
        measures: Labels, units and directions of the metrics, by name.
        results: One per method, the baseline first.
        ledger: Every opening of the test set.
        revisions: The experiment from one edit to the next.
        notes: What was adapted to the data, one sentence each.
    """

    experiment: Experiment
    split: str
    leaky: bool
    baseline: str
    measures: Mapping[str, Measure]
    results: tuple[Result, ...]
    ledger: tuple[LedgerLine, ...]
    revisions: tuple[Revision, ...]
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of the test, in the experiment's order."""
        return self.experiment.metrics

    @property
    def trained(self) -> list[Result]:
        """The results of the methods, without the baseline."""
        return [result for result in self.results if result.method != self.baseline]

    @property
    def main_metric(self) -> str:
        """The measure by which hyperparameters were selected, or the last one where it was not tested."""
        selected = self.experiment.training.metric
        return selected if selected in self.metrics else self.metrics[-1]


def collect(root: str | Path) -> Comparison:
    """Read an experiment's folder.

    Args:
        root: The folder that ``levelfield run`` wrote, finished or not.
    """
    store = Store(Path(root))
    index = store.index()
    names = [index.baseline, *(method.name for method in index.experiment.methods)]
    return Comparison(
        experiment=index.experiment,
        split=index.split,
        leaky=index.leaky,
        baseline=index.baseline,
        measures=measures_of(index),
        results=tuple(_result(store, index, name) for name in names if name in index.selections),
        ledger=tuple(store.ledger()),
        revisions=tuple(store.revisions()),
        notes=index.notes,
    )


def _result(store: Store, index: Index, name: str) -> Result:
    experiment = index.experiment
    confirmation = index.selection_id(name)
    reruns = store.reruns(confirmation, experiment.confirm.reruns).values()
    good = [rerun for rerun in reruns if rerun.failed is None]
    search = index.searches.get(name)
    return Result(
        method=name,
        selection=store.selection(index.selections[name]),
        confirmation=confirmation,
        scores={
            setting: {
                metric: [rerun.scores(setting)[metric] for rerun in good if metric in rerun.scores(setting)]
                for metric in experiment.metrics
            }
            for setting in SETTINGS
        },
        best_epochs=[epoch for rerun in good for epoch in rerun.best_epochs],
        search=None if search is None else store.search(search),
        trials=[] if search is None else store.trials(search)[: experiment.search.trials],
        failed=[rerun.failed for rerun in reruns if rerun.failed is not None],
    )
