"""Results: what the confirmations say, read from the records alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from levelfield.compare._measures import measures_of
from levelfield.config import Experiment
from levelfield.records import (
    SETTINGS,
    Index,
    LedgerLine,
    Measure,
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
    """One search of a method, what it chose, and the reruns of that choice.

    Attributes:
        selection: The frozen choice.
        confirmation: The name under which its reruns are recorded.
        reruns: By their number, failed ones too.
        search: What the search depends on; None if there was none, or it is not on record.
        trials: The search, trial by trial.
    """

    selection: Selection
    confirmation: str
    reruns: dict[int, Rerun]
    search: Search | None
    trials: list[Trial]

    @property
    def fixed(self) -> Mapping[str, object]:
        """What the experiment sets and the search leaves alone; every run of it has these values too."""
        return {} if self.search is None else self.search.run.hyperparameters

    @property
    def scored(self) -> list[Rerun]:
        """The reruns that have scores."""
        return [rerun for rerun in self.reruns.values() if rerun.failed is None]

    def scores(self, setting: str, metric: str) -> list[float]:
        """The score of each rerun that has the metric."""
        return [rerun.scores(setting)[metric] for rerun in self.scored if metric in rerun.scores(setting)]


@dataclass(frozen=True)
class Result:
    """One method's test scores: those of its searches' choices, in all their reruns.

    Attributes:
        method: Its name.
        repeats: One for each search that was selected from; the baseline has one, without a search.
        metrics: The metrics of the test.
    """

    method: str
    repeats: tuple[Repeat, ...]
    metrics: tuple[str, ...]

    @property
    def selection(self) -> Selection:
        """The choice of the first search."""
        return self.repeats[0].selection

    @property
    def search(self) -> Search | None:
        """What the first search depends on."""
        return self.repeats[0].search

    @property
    def trials(self) -> list[Trial]:
        """The first search, trial by trial."""
        return self.repeats[0].trials

    @property
    def scores(self) -> dict[str, dict[str, list[float]]]:
        """``scores[setting][metric]`` is the list of all reruns' scores."""
        return {
            setting: {
                metric: [score for repeat in self.repeats for score in repeat.scores(setting, metric)]
                for metric in self.metrics
            }
            for setting in SETTINGS
        }

    @property
    def best_epochs(self) -> list[int]:
        """Of every fold of every rerun; empty for the untrained baseline."""
        return [epoch for repeat in self.repeats for rerun in repeat.scored for epoch in rerun.best_epochs]

    @property
    def failed(self) -> list[str]:
        """Why reruns failed, one reason each."""
        reruns = [rerun for repeat in self.repeats for rerun in repeat.reruns.values()]
        return [rerun.failed for rerun in reruns if rerun.failed is not None]

    @property
    def pruned(self) -> int:
        """How many trials were ended early because they could no longer win."""
        return sum(trial.estimate is not None for repeat in self.repeats for trial in repeat.trials)

    @property
    def diverged(self) -> int:
        """How many trials failed."""
        missing = sum(trial.score is None for repeat in self.repeats for trial in repeat.trials)
        return missing - self.pruned

    @property
    def collapsed(self) -> int:
        """How many trials learned nothing in some fold."""
        return sum(bool(trial.collapse) for repeat in self.repeats for trial in repeat.trials)

    @property
    def mean_best_epoch(self) -> float | None:
        """The mean of the best epochs ("Max. Epoch" in the papers); None for the baseline."""
        return sum(self.best_epochs) / len(self.best_epochs) if self.best_epochs else None

    def replicates(self, setting: str, metric: str) -> list[float]:
        """What can be counted as independent: reruns, or whole searches, each with its reruns' mean."""
        values = [scores for repeat in self.repeats if (scores := repeat.scores(setting, metric))]
        if len(self.repeats) > 1:
            return [fmean(scores) for scores in values]
        return values[0] if values else []

    def interval(self, setting: str, metric: str) -> Interval:
        """Mean and 95% t-interval over the replicates; of none a NaN with n = 0.

        With several searches it holds their luck; with one it is that of the reruns alone.
        """
        values = self.replicates(setting, metric)
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
        luck: What studies of search luck on this dataset and trunk found, those whose folders lie beside.
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
    luck: tuple[SearchLuck, ...] = ()

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
        luck=tuple(found for found in store.search_luck_nearby() if _same_data(found, index.experiment)),
    )


def _same_data(luck: SearchLuck, experiment: Experiment) -> bool:
    ours = (experiment.dataset.name, experiment.trunk.name, experiment.trunk.mode)
    return (luck.dataset, luck.trunk, luck.mode) == ours and luck.metric == experiment.training.metric


def _result(store: Store, index: Index, name: str) -> Result:
    experiment = index.experiment
    searches: tuple[str | None, ...] = index.searches.get(name, (None,))
    frozen = zip(index.selections[name], index.selection_ids(name), searches, strict=True)
    return Result(
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
