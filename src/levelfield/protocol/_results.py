"""Results: what the confirmations say, read from the records alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.errors import UsageError
from levelfield.protocol._confirm import rerun_file
from levelfield.protocol._run import read_index
from levelfield.records import Store, digest, read_json, read_lines
from levelfield.stats import Interval, t_interval

SETTINGS = ("separated", "concatenated")


@dataclass(frozen=True)
class Result:
    """One method's test scores over its reruns.

    Attributes:
        method: Its name.
        selection: The frozen choice.
        scores: ``scores[setting][metric]`` is the list of the reruns' scores.
        best_epochs: Of every fold of every rerun; empty for the untrained baseline.
        trials: The method's search, trial by trial.
        failed: Why reruns failed, one reason each.
    """

    method: str
    selection: dict[str, Any]
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
    if not (store.root / "experiment.json").exists():
        raise UsageError(
            f"{root} holds no levelfield experiment; give the folder that `levelfield run` wrote"
        )
    index = read_index(store)
    names = [index["baseline"], *(method["name"] for method in index["experiment"]["methods"])]
    metrics = tuple(index["experiment"]["metrics"])
    found = [_result(store, index, name, metrics) for name in names if name in index["selections"]]
    return Comparison(
        experiment=index["experiment"],
        split=index["split"],
        leaky=index["leaky"],
        baseline=index["baseline"],
        metrics=metrics,
        results=tuple(found),
        ledger=tuple(read_lines(store.ledger_file)),
        revisions=tuple(read_lines(store.root / "revisions.jsonl")),
    )


def _result(store: Store, index: dict[str, Any], name: str, metrics: tuple[str, ...]) -> Result:
    selection = read_json(store.selection_file(index["selections"][name]))
    folder = store.confirmation(digest(selection))
    reruns = index["experiment"]["confirm"]["reruns"]
    files = [rerun_file(folder, rerun) for rerun in range(reruns)]
    found = [read_json(file) for file in files if file.exists()]
    good = [rerun for rerun in found if "failed" not in rerun]
    return Result(
        method=name,
        selection=selection,
        scores={
            setting: {m: [rerun[setting][m] for rerun in good if m in rerun[setting]] for m in metrics}
            for setting in SETTINGS
        },
        best_epochs=[epoch for rerun in good for epoch in rerun["best_epochs"]],
        trials=store.trials(index["searches"][name])[: index["experiment"]["search"]["trials"]]
        if name in index["searches"]
        else [],
        failed=[rerun["failed"] for rerun in found if "failed" in rerun],
    )
