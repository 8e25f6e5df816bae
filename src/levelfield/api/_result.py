"""Result objects of ``lf.run`` and ``lf.compare``."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.analysis import Analysis, Conclusion, ExperimentsComparison


@dataclass(frozen=True)
class ExperimentResult:
    """Result of one experiment, read from its records when first used.

    ``table`` and ``pairs`` are pandas data frames where pandas is installed, else lists of dictionaries.
    Their scores and differences are fractions.

    Attributes:
        path: Experiment directory.
        setting: "concatenated" or "separated" embeddings of the folds.
        metric: Metric of the verdict and the pairs. Defaults to the selection metric.
        equivalence: Largest difference that does not matter, as tables print it; None takes the default.
        against: Method that the others are compared with; None compares all pairs.
    """

    path: Path
    setting: str = "concatenated"
    metric: str | None = None
    equivalence: float | None = None
    against: str | None = None

    def __fspath__(self) -> str:
        """Return the experiment directory, so that a result is accepted as a path."""
        return str(self.path)

    @cached_property
    def analysis(self) -> Analysis:
        """All judgments, for code that needs more than this class shows."""
        from levelfield.analysis import analyze, filter_pairs

        found = analyze(self.path, setting=self.setting, metric=self.metric, equivalence=self.equivalence)
        return found if self.against is None else filter_pairs(found, self.against)

    @property
    def table(self) -> Any:
        """Test scores: one row per method, one column per setting and metric, best method first."""
        comparison = self.analysis.comparison
        results = {result.method: result for result in comparison.results}
        order = [*self.analysis.means, *(name for name in results if name not in self.analysis.means)]
        rows = []
        for name in order:
            scores = {
                f"{setting}.{metric}": interval.mean if interval.n else None
                for setting in ("concatenated", "separated")
                for metric in comparison.metrics
                for interval in (results[name].seed_interval(setting, metric),)
            }
            rows.append({"method": name, "baseline": name == comparison.baseline, **scores})
        return as_frame(rows)

    @property
    def pairs(self) -> Any:
        """Judged pairs of methods: difference, interval, p-value, verdict; the better mean first."""
        return as_frame([pair.as_dict() for pair in self.analysis.pairs])

    @property
    def verdict(self) -> str:
        """Two to four short sentences: which method to use, and how sure that is."""
        return self.conclusion.text

    @cached_property
    def conclusion(self) -> Conclusion:
        """Facts behind :attr:`verdict`: the method to use, tied and worse methods, what the test can see."""
        from levelfield.analysis import conclude_experiment

        return conclude_experiment(self.analysis)

    @property
    def best(self) -> tuple[str, ...]:
        """Methods that no other method was found better than, best mean first."""
        baseline = self.analysis.comparison.baseline
        worse = set(self.conclusion.worse)
        return tuple(name for name in self.analysis.means if name not in worse and name != baseline)

    @property
    def report(self) -> Path:
        """HTML page of the experiment."""
        from levelfield.records import Store

        return Store(self.path).report_directory / "index.html"

    def _repr_html_(self) -> str:
        from levelfield.reports import results_table

        table = results_table(self.analysis)
        return f"<p><b>{escape(self.verdict)}</b></p>{table.html()}"


@dataclass(frozen=True)
class ExperimentsResult:
    """Several experiments side by side.

    Attributes:
        experiments: Result of each experiment, in the order given.
    """

    experiments: tuple[ExperimentResult, ...]

    @cached_property
    def analyses(self) -> list[Analysis]:
        """Judgments of each experiment."""
        return [result.analysis for result in self.experiments]

    @cached_property
    def overall(self) -> ExperimentsComparison:
        """Ranks and agreement over all experiments."""
        from levelfield.analysis import compare_experiments

        return compare_experiments(self.analyses)

    @property
    def table(self) -> Any:
        """Mean scores of the methods that all experiments have: one row per method."""
        return as_frame(
            [
                {"method": method, **{name: case[method] for name, case in self.overall.cases.items()}}
                for method in next(iter(self.overall.cases.values()), {})
            ]
        )

    @property
    def pairs(self) -> Any:
        """Judged pairs of every experiment, with the experiment's name."""
        from levelfield.analysis import experiment_labels

        labels = experiment_labels(self.analyses)
        return as_frame(
            [
                {"experiment": label, **pair.as_dict()}
                for label, analysis in zip(labels, self.analyses, strict=True)
                for pair in analysis.pairs
            ]
        )

    @property
    def verdict(self) -> str:
        """Conclusions over all experiments."""
        return " ".join(self.overall.sentences)

    def _repr_html_(self) -> str:
        from levelfield.reports import experiments_table

        return f"<p><b>{escape(self.verdict)}</b></p>{experiments_table(self.overall).html()}"


def compare(
    *directories: str | Path | ExperimentResult,
    setting: str = "concatenated",
    metric: str | None = None,
    equivalence: float | None = None,
    against: str | None = None,
) -> ExperimentResult | ExperimentsResult:
    """Compare the methods of one experiment, or of several experiments.

    Args:
        *directories: Experiment directories that ``lf.run`` or ``levelfield run`` wrote.
        setting: "concatenated" or "separated".
        metric: Defaults to the selection metric.
        equivalence: Largest difference that does not matter, as tables print it: 0.5 is half a point.
        against: Compare only with this method; "best" is the method with the best mean.

    Returns:
        An :class:`ExperimentResult` for one directory, an :class:`ExperimentsResult` for several.
    """
    from levelfield.core.errors import UsageError

    if not directories:
        raise UsageError("compare needs at least one experiment directory, e.g. lf.compare('runs/demo')")
    for directory in directories:
        if not isinstance(directory, str | PathLike):
            raise UsageError(
                f"compare takes directories, not a {type(directory).__name__}; write lf.compare(*directories)"
            )
        if Path(directory).is_file():
            raise UsageError(
                f"{directory} is a file, not an experiment; `levelfield evaluate A B` compares embeddings"
            )
        if not (Path(directory) / "experiment.json").exists():
            raise UsageError(
                f"{directory} holds no levelfield experiment; give the directory that `levelfield run` wrote"
            )
    results = [
        ExperimentResult(
            Path(directory), setting=setting, metric=metric, equivalence=equivalence, against=against
        )
        for directory in directories
    ]
    return results[0] if len(results) == 1 else ExperimentsResult(tuple(results))


def as_frame(rows: Sequence[dict[str, Any]]) -> Any:
    """Return rows as a pandas data frame, or as a list of dictionaries where pandas is not installed."""
    if importlib.util.find_spec("pandas") is None:
        return list(rows)
    import pandas as pd

    return pd.DataFrame(list(rows))
