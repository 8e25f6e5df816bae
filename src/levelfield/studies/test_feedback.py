"""Effect of test feedback: tune the same methods by validation scores and by test scores.

Both arms train on the same images, try the same hyperparameters with the same seeds, and stop by the same
rule. Only the images for tuning differ: validation classes, or the test set itself, as in most papers before
"A Metric Learning Reality Check".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from levelfield.analysis import MetricInfo, metric_info, read_comparison
from levelfield.config import Experiment
from levelfield.core.errors import UsageError
from levelfield.protocol import ProgressCallback, run_protocol
from levelfield.records import RunDirectory, Store, write_text
from levelfield.reports import Table
from levelfield.reports.figures import Bar, BarChart, write_chart
from levelfield.reports.table import TableCell, TableEntry, score_cell
from levelfield.stats import Interval

SETTING = "separated"


@dataclass(frozen=True)
class FeedbackResult:
    """One method tuned in both ways, scored by the metric of the tuning.

    Attributes:
        method: Name of the method.
        trials: Number of trials.
        chosen: Test score of the trial and epochs that validation chose, for the networks of the search; None
            if the other arm stopped before such an epoch.
        best_seen: Best test score of the same networks, as papers used to publish.
        honest: Test score of fresh reruns, tuned by validation.
        retrained: Test score of fresh reruns, tuned by test scores, which also choose their epochs.
    """

    method: str
    trials: int
    chosen: float | None
    best_seen: float
    honest: Interval
    retrained: Interval

    @property
    def inflation(self) -> float:
        """Best test score minus the honest score.

        The honest score is that of the same networks if known, which excludes luck; otherwise that of reruns.
        """
        return self.best_seen - (self.honest.mean if self.chosen is None else self.chosen)


def default_experiment() -> Experiment:
    """Return an experiment with three methods on Glyphs; it takes minutes on a laptop."""
    return Experiment.build(
        name="test-feedback",
        preset="demo",
        split={"folds": 2},
        search={"trials": 10, "sampler": "random"},
        confirm={"reruns": 5},
    )


def run_study(
    experiment: Experiment, out: Path, *, progress: ProgressCallback | None = None
) -> list[FeedbackResult]:
    """Tune both ways, and write ``test-feedback.md``, ``.json``, ``.png`` and ``.html`` into ``out``.

    The records of the arms go to ``out/validation`` and ``out/test``; ledger and reports of the second are
    marked as leaky. Finished work is not repeated.
    """
    honest, leaky = arms(experiment)
    for arm, directory in ((honest, out / "validation"), (leaky, out / "test")):
        run_protocol(arm, directory, progress=progress)
    metric = experiment.training.metric
    results = compare_arms(out / "validation", out / "test", metric)
    write_text(out / "test-feedback.md", as_markdown(results, experiment))
    facts = [asdict(result) | {"inflation": result.inflation} for result in results]
    write_text(out / "test-feedback.json", json.dumps({"metric": metric, "methods": facts}, indent=1) + "\n")
    write_chart(chart(results, metric_info(metric)), out, "test-feedback")
    return results


def arms(experiment: Experiment) -> tuple[Experiment, Experiment]:
    """Return the experiment tuned by validation scores, and the one tuned by test scores.

    A sampler that learns from scores would try other hyperparameters in each arm. So both arms sample at
    random or use the same grid.
    """
    if experiment.hyperparameters != "search":
        raise UsageError("test-feedback compares two searches; set `hyperparameters: search`")
    metric = experiment.training.metric
    if not metric_info(metric).higher_is_better:
        raise UsageError(
            f'test-feedback needs a metric where higher is better, and "{metric}" is not one; '
            "set training.metric to another, such as map_at_r"
        )
    split, search = experiment.split, experiment.search
    if split.options.get("allow_test_feedback"):
        raise UsageError(f"split plan {split.name} has test feedback itself; choose a plan without it")
    sampler = search.sampler if search.sampler == "grid" else "random"
    shared = {
        "search": search.model_copy(update={"sampler": sampler, "prune": False, "storage": None}),
        "metrics": tuple(dict.fromkeys((*experiment.metrics, experiment.training.metric))),
    }
    leaky_split = type(split)(
        name="test_feedback",
        plan=split.name,
        allow_test_feedback=True,
        **split.options,
    )
    return experiment.model_copy(update=shared), experiment.model_copy(update=shared | {"split": leaky_split})


def compare_arms(honest: Path, leaky: Path, metric: str) -> list[FeedbackResult]:
    """Return the results of both arms by method; methods without a successful rerun are left out."""
    leaky_results = {result.method: result for result in read_comparison(leaky).trained}
    results = []
    for result in read_comparison(honest).trained:
        other = leaky_results[result.method]
        if result.scores[SETTING][metric] and other.scores[SETTING][metric]:
            number = result.selection.trial
            assert number is not None and other.selection.score is not None, "both arms have searched"
            networks = list(zip(result.trials[number].runs, other.trials[number].runs, strict=True))
            found = [
                _test_score_at_best_epoch(Store(honest).run(a), Store(leaky).run(b), metric)
                for a, b in networks
            ]
            scores = [score for score in found if score is not None]
            results.append(
                FeedbackResult(
                    method=result.method,
                    trials=len(result.trials),
                    chosen=fmean(scores) if len(scores) == len(found) else None,
                    best_seen=other.selection.score,
                    honest=result.seed_interval(SETTING, metric),
                    retrained=other.seed_interval(SETTING, metric),
                )
            )
    return results


def _test_score_at_best_epoch(honest: RunDirectory, leaky: RunDirectory, metric: str) -> float | None:
    """Return the test score at the epoch that validation chose, from the log of the leaky arm."""
    result = honest.result()
    assert result is not None
    return next((line.scores[metric] for line in leaky.log() if line.epoch == result.best_epoch), None)


def as_markdown(results: Sequence[FeedbackResult], experiment: Experiment) -> str:
    """Return the results as a table, with one sentence per method."""
    shown = metric_info(experiment.training.metric)
    lines = [
        "# The price of test feedback",
        "",
        f"{experiment.dataset.name}, test {shown.axis}, single models. The same networks were trained "
        "with the same hyperparameters; once validation classes chose among them and their epochs, once the "
        "test set did (**leaky**). The best score that the test set could choose is what used to be "
        "published; inflation is its difference from the score of what validation chose. Then both choices "
        "were trained again with fresh seeds.",
        "",
        results_table(results, shown).markdown(),
        "",
        *(f"- {sentence(result)}" for result in results),
        f"- {ranking(results)}",
        "",
    ]
    return "\n".join(lines)


def results_table(results: Sequence[FeedbackResult], shown: MetricInfo) -> Table:
    """Return a table with one row per method: both choices among the same networks, then both retrained."""
    heads = ("method", "trials", "chosen by validation", "leaky: chosen by test", "inflation")
    rows: list[list[TableEntry]] = []
    for result in results:
        chosen = "-" if result.chosen is None else shown.shown(result.chosen)
        numbers = (
            TableCell(chosen, value=result.chosen),
            TableCell(shown.shown(result.best_seen), value=result.best_seen),
            TableCell(shown.shown(result.inflation, "+"), value=result.inflation),
            score_cell(result.honest, shown),
            score_cell(result.retrained, shown),
        )
        rows.append([result.method, result.trials, *numbers])
    return Table.from_rows([*heads, "retrained", "leaky: retrained"], rows)


def sentence(result: FeedbackResult) -> str:
    """Return a result as a sentence."""
    base = result.best_seen - result.inflation
    relative = f" ({100 * result.inflation / base:+.1f}%)" if base > 0 else ""
    among = "of what validation chose" if result.chosen is not None else "over fresh reruns"
    return (
        f"{result.method}: tuning by the test set would have published {100 * result.best_seen:.2f} where "
        f"the honest score {among} is {100 * base:.2f}: {100 * result.inflation:+.2f} points{relative}."
    )


def ranking(results: Sequence[FeedbackResult]) -> str:
    """Return a sentence on whether test feedback changes the order of the methods."""
    honest = [o.method for o in sorted(results, key=lambda o: o.inflation - o.best_seen)]
    leaky = [o.method for o in sorted(results, key=lambda o: -o.best_seen)]
    if honest == leaky:
        return f"The order of the methods is the same both ways: {', '.join(honest)}."
    return f"The order of the methods changes: {', '.join(honest)} becomes {', '.join(leaky)}."


def chart(results: Sequence[FeedbackResult], shown: MetricInfo) -> BarChart:
    """Return a chart with four bars per method: both choices among the same networks, then both retrained."""

    def bar(interval: Interval) -> Bar:
        half = shown.scale * interval.half_width if interval.n > 1 else None
        return Bar(shown.scale * interval.mean, half)

    return BarChart(
        title="The price of test feedback: validation or test set chooses among the same networks",
        y_label=f"test {shown.axis}",
        groups=tuple(result.method for result in results),
        series={
            "validation": {o.method: Bar(shown.scale * (o.best_seen - o.inflation)) for o in results},
            "test (leaky)": {o.method: Bar(shown.scale * o.best_seen) for o in results},
            "validation, retrained": {o.method: bar(o.honest) for o in results},
            "test (leaky), retrained": {o.method: bar(o.retrained) for o in results},
        },
    )
