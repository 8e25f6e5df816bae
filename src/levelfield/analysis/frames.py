"""Records of an experiment as tidy pandas data frames. Torch is not imported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelfield.analysis import SETTINGS, Comparison, read_comparison, read_confirmation
from levelfield.core.errors import UsageError
from levelfield.records import RunDirectory, Store, Trial

if TYPE_CHECKING:
    import pandas as pd


def results(root: str | PathLike[str]) -> Results:
    """Return the results of an experiment as data frames.

    Args:
        root: Experiment directory, finished or not.

    Example::

        found = lf.results("runs/my-comparison")
        found.results.pivot_table(index="method", columns="metric", values="score")
        found.trials.plot.scatter("margin", "score")
    """
    try:
        import pandas  # noqa: F401 - is it installed?
    except ImportError as error:
        raise UsageError("lf.results needs pandas; `pip install 'levelfield[pandas]'`") from error
    return Results(Path(root), read_comparison(Path(root)))


@dataclass(frozen=True)
class Results:
    """Data frames of one experiment, one row per observation. Each frame is read on first use.

    Attributes:
        root: Experiment directory.
        comparison: Results as Python objects.
    """

    root: Path
    comparison: Comparison

    @cached_property
    def results(self) -> pd.DataFrame:
        """Test scores: one row per method, search, rerun, setting and metric.

        Columns: method, search, rerun, setting ("separated" or "concatenated"), metric, score.
        """
        rows = [
            (result.method, search, number, setting, metric, score)
            for result in self.comparison.results
            for search, repeat in enumerate(result.repeats)
            for number, rerun in repeat.reruns.items()
            if rerun.failed is None
            for setting in SETTINGS
            for metric, score in rerun.scores(setting).items()
        ]
        return _frame(rows, ["method", "search", "rerun", "setting", "metric", "score"])

    @cached_property
    def trials(self) -> pd.DataFrame:
        """Trials of all searches, also unfinished ones: one row per trial, one column per hyperparameter.

        Columns: method, search, trial, score, status ("complete", "failed" or "pruned"), reason, selected,
        the score of each fold (fold_0, ...), then the hyperparameters of all methods, NaN if a method
        does not have them.
        """
        chosen = {
            (result.method, search, repeat.selection.trial)
            for result in self.comparison.trained
            for search, repeat in enumerate(result.repeats)
        }
        rows = [
            {
                "method": method,
                "search": search,
                "trial": trial.number,
                "score": trial.score,
                "status": _status(trial),
                "reason": trial.reason,
                "selected": (method, search, trial.number) in chosen,
                **{f"fold_{fold}": score for fold, score in enumerate(trial.fold_scores)},
                **trial.hyperparameters,
            }
            for method, search, trial in self._trials()
        ]
        first = ["method", "search", "trial", "score", "status", "reason", "selected"]
        return _ordered(rows, first, at_end=lambda name: not name.startswith("fold_"))

    @cached_property
    def runs(self) -> pd.DataFrame:
        """Runs: one row per run in the directory, including runs of earlier versions of the experiment.

        Columns: run, method, trial, rerun (from the record that lists the run, else None), loss,
        miner, sampler, fold, seed, status, best_epoch, last_epoch, seconds, host, then ``validation.NAME``
        per metric and the hyperparameters.
        """
        listed: dict[str, dict[str, Any]] = {
            run: {"method": method, "trial": trial.number}
            for method, _, trial in self._trials()
            for run in trial.runs
        }
        listed |= {
            run: {"method": result.method, "rerun": number}
            for result in self.comparison.trained
            for repeat in result.repeats
            for number, rerun in repeat.reruns.items()
            for run in rerun.runs
        }
        rows = [
            _run_row(directory, listed.get(directory.path.name, {})) for directory in self._run_directories
        ]
        first = ["run", "method", "trial", "rerun", "loss", "miner", "sampler", "fold", "seed"]
        first += ["status", "best_epoch", "last_epoch", "seconds", "host"]
        return _ordered(rows, first, at_end=lambda name: not name.startswith("validation."))

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Learning curves: one row per run, epoch and quantity ("loss", or a validation metric)."""
        rows = [
            (directory.path.name, line.epoch, name, value)
            for directory in self._run_directories
            for line in directory.log()
            for name, value in (("loss", line.loss), *line.scores.items())
            if value is not None
        ]
        return _frame(rows, ["run", "epoch", "quantity", "value"])

    def per_query(self, metric: str | None = None, *, setting: str = "concatenated") -> pd.DataFrame:
        """Return the score of each test query: one row per method, search, rerun and query.

        Columns: method, search, rerun, query (row in the test set), label (class), score. The score is NaN if
        the query has no other image of its class.

        Args:
            metric: Name of a test metric. Defaults to the selection metric.
            setting: "concatenated" or "separated".

        Raises:
            UsageError: The metric or the setting is unknown.
        """
        import numpy as np
        import pandas as pd

        wanted = metric or self.comparison.main_metric
        if wanted not in self.comparison.metrics:
            known = ", ".join(self.comparison.metrics)
            raise UsageError(f'metric "{wanted}" was not tested; choose from {known}')
        if setting not in SETTINGS:
            raise UsageError(f'unknown setting "{setting}"; choose from {", ".join(SETTINGS)}')
        frames = []
        for result in self.comparison.results:
            confirmation = read_confirmation(self.root, result)
            labels = confirmation.classes()
            for (search, number), scores in (confirmation.per_query(setting, wanted) or {}).items():
                frame = pd.DataFrame({"query": np.arange(len(scores)), "score": scores})
                frame.insert(0, "method", result.method)
                frame.insert(1, "search", search)
                frame.insert(2, "rerun", number)
                frame.insert(4, "label", labels.astype("int64") if labels is not None else -1)
                frames.append(frame)
        columns = ["method", "search", "rerun", "query", "label", "score"]
        return pd.concat(frames, ignore_index=True) if frames else _frame([], columns)

    def _trials(self) -> Iterator[tuple[str, int, Trial]]:
        """Yield method, number of the search and trial, for all searches on record."""
        store = Store(self.root)
        searches = store.experiment_record().searches
        for method in self.comparison.experiment.methods:
            for search, name in enumerate(searches.get(method.name, ())):
                yield from ((method.name, search, trial) for trial in store.trials(name))

    @property
    def _run_directories(self) -> list[RunDirectory]:
        found = Store(self.root).runs()
        return [directory for directory in found if directory.begun]


def _status(trial: Any) -> str:
    return "pruned" if trial.pruned else "complete" if trial.score is not None else "failed"


def _run_row(directory: RunDirectory, listed: dict[str, Any]) -> dict[str, Any]:
    spec, result, provenance = directory.spec(), directory.result(), directory.provenance()
    return {
        "run": directory.path.name,
        "method": listed.get("method"),
        "trial": listed.get("trial"),
        "rerun": listed.get("rerun"),
        "loss": spec.recipe.loss,
        "miner": spec.recipe.miner,
        "sampler": spec.recipe.sampler,
        "fold": spec.fold,
        "seed": spec.seed,
        "status": "running" if result is None else result.status,
        "best_epoch": None if result is None else result.best_epoch,
        "last_epoch": None if result is None else result.last_epoch,
        "seconds": None if provenance is None else provenance.seconds,
        "host": None if provenance is None else provenance.host,
        **({} if result is None else {f"validation.{name}": v for name, v in result.validation.items()}),
        **spec.hyperparameters,
    }


def _frame(rows: list[Any], columns: list[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)


def _ordered(rows: list[dict[str, Any]], first: list[str], *, at_end: Any) -> pd.DataFrame:
    """Return a frame with the columns ``first``, then the others sorted by name, those ``at_end`` last."""
    names = sorted({name for row in rows for name in row} - set(first))
    columns = first + [n for n in names if not at_end(n)] + [n for n in names if at_end(n)]
    return _frame(rows, columns)
