"""The price of test feedback: tune the same methods once by validation and once by test scores.

Both arms train on the same images, try the same hyperparameters with the same seeds, and stop by the same
rule. Only the images that choose differ: validation classes, or the test set itself, as most papers before
"A Metric Learning Reality Check" did it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from levelfield.compare import Measure, collect, measure
from levelfield.config import Experiment
from levelfield.errors import UsageError
from levelfield.protocol import Progress
from levelfield.protocol import run as run_protocol
from levelfield.records import RunFolder, Store, write_text
from levelfield.reports import Table
from levelfield.reports.figures import Bar, BarChart, write_chart
from levelfield.reports.table import Cell, Entry, score
from levelfield.stats import Interval

SETTING = "separated"


@dataclass(frozen=True)
class Outcome:
    """One method under both ways of tuning, by the metric that both were tuned for.

    Attributes:
        method: Its name.
        trials: How many sets of hyperparameters were tried.
        chosen: Test score, among the networks of the search, of the trial and epochs that validation chose;
            None if the other arm stopped before such an epoch.
        best_seen: The best test score among the same networks: what used to be published.
        honest: Test score, tuned by validation, over fresh reruns.
        retrained: The same, tuned by test score, and its reruns' epochs too.
    """

    method: str
    trials: int
    chosen: float | None
    best_seen: float
    honest: Interval
    retrained: Interval

    @property
    def inflation(self) -> float:
        """How much the number that used to be published is above the honest one.

        Among the same networks, if possible: then luck has no part in it.
        """
        return self.best_seen - (self.honest.mean if self.chosen is None else self.chosen)


def default_experiment() -> Experiment:
    """Three methods on Glyphs, minutes on a laptop."""
    return Experiment.build(
        name="test-feedback",
        preset="demo",
        split={"folds": 2},
        search={"trials": 10, "sampler": "random"},
        confirm={"reruns": 5},
    )


def run(experiment: Experiment, out: Path, *, progress: Progress | None = None) -> list[Outcome]:
    """Tune both ways, and write ``test-feedback.md``, ``.json``, ``.png`` and ``.html`` into ``out``.

    The records of the arms go to ``out/validation`` and ``out/test``; the second is stamped leaky, in its
    ledger and its reports. Finished work is not done again.
    """
    honest, leaky = arms(experiment)
    for arm, folder in ((honest, out / "validation"), (leaky, out / "test")):
        run_protocol(arm, folder, progress=progress)
    metric = experiment.training.metric
    outcomes = compare_arms(out / "validation", out / "test", metric)
    write_text(out / "test-feedback.md", as_markdown(outcomes, experiment))
    facts = [asdict(outcome) | {"inflation": outcome.inflation} for outcome in outcomes]
    write_text(out / "test-feedback.json", json.dumps({"metric": metric, "methods": facts}, indent=1) + "\n")
    write_chart(chart(outcomes, measure(metric)), out, "test-feedback")
    return outcomes


def arms(experiment: Experiment) -> tuple[Experiment, Experiment]:
    """The experiment tuned by validation, and by test scores.

    A sampler that learns from scores would try other hyperparameters in each arm; so both draw at random,
    or walk the same grid.
    """
    if experiment.hyperparameters != "search":
        raise UsageError("test-feedback compares two searches; set `hyperparameters: search`")
    metric = experiment.training.metric
    if not measure(metric).higher_is_better:
        raise UsageError(
            f'test-feedback counts by how much a score rises, and "{metric}" is not one of which more is '
            "better; set training.metric to one that is, such as map_at_r"
        )
    split, search = experiment.split, experiment.search
    if split.options.get("allow_test_feedback"):
        raise UsageError(f"split plan {split.name} has test feedback itself; give the honest plan")
    sampler = search.sampler if search.sampler == "grid" else "random"
    shared = {
        "search": search.model_copy(update={"sampler": sampler, "prune": False, "storage": None}),
        "metrics": tuple(dict.fromkeys((*experiment.metrics, experiment.training.metric))),
    }
    peeking = type(split)(
        name="test_feedback",
        plan=split.name,
        allow_test_feedback=True,
        **split.options,
    )
    return experiment.model_copy(update=shared), experiment.model_copy(update=shared | {"split": peeking})


def compare_arms(honest: Path, leaky: Path, metric: str) -> list[Outcome]:
    """The records of both arms side by side; methods without a single good rerun are left out."""
    peeking = {result.method: result for result in collect(leaky).trained}
    outcomes = []
    for result in collect(honest).trained:
        other = peeking[result.method]
        if result.scores[SETTING][metric] and other.scores[SETTING][metric]:
            number = result.selection.trial
            assert number is not None and other.selection.score is not None, "both arms have searched"
            networks = list(zip(result.trials[number].runs, other.trials[number].runs, strict=True))
            found = [_seen(Store(honest).run(a), Store(leaky).run(b), metric) for a, b in networks]
            scores = [score for score in found if score is not None]
            outcomes.append(
                Outcome(
                    method=result.method,
                    trials=len(result.trials),
                    chosen=fmean(scores) if len(scores) == len(found) else None,
                    best_seen=other.selection.score,
                    honest=result.interval(SETTING, metric),
                    retrained=other.interval(SETTING, metric),
                )
            )
    return outcomes


def _seen(honest: RunFolder, leaky: RunFolder, metric: str) -> float | None:
    """The test score of a network at the epoch that validation chose: the leaky arm, its twin, logged it."""
    result = honest.result()
    assert result is not None
    return next((line.scores[metric] for line in leaky.log() if line.epoch == result.best_epoch), None)


def as_markdown(outcomes: Sequence[Outcome], experiment: Experiment) -> str:
    """The outcomes as a table, with what it says in words."""
    shown = measure(experiment.training.metric)
    lines = [
        "# The price of test feedback",
        "",
        f"{experiment.dataset.name}, test {shown.axis}, single models. The same networks were trained "
        "with the same hyperparameters; once validation classes chose among them and their epochs, once the "
        "test set did (**leaky**). The best score that the test set could choose is what used to be "
        "published; inflation is how far it lies above the score of what validation chose. Then both choices "
        "were trained anew, with fresh seeds.",
        "",
        outcomes_table(outcomes, shown).markdown(),
        "",
        *(f"- {sentence(outcome)}" for outcome in outcomes),
        f"- {ranking(outcomes)}",
        "",
    ]
    return "\n".join(lines)


def outcomes_table(outcomes: Sequence[Outcome], shown: Measure) -> Table:
    """A row per method: the same networks chosen twice, then both choices trained anew."""
    heads = ("method", "trials", "chosen by validation", "leaky: chosen by test", "inflation")
    rows: list[list[Entry]] = []
    for outcome in outcomes:
        chosen = "-" if outcome.chosen is None else shown.shown(outcome.chosen)
        numbers = (
            Cell(chosen, value=outcome.chosen),
            Cell(shown.shown(outcome.best_seen), value=outcome.best_seen),
            Cell(shown.shown(outcome.inflation, "+"), value=outcome.inflation),
            score(outcome.honest, shown),
            score(outcome.retrained, shown),
        )
        rows.append([outcome.method, outcome.trials, *numbers])
    return Table.of([*heads, "retrained", "leaky: retrained"], rows)


def sentence(outcome: Outcome) -> str:
    """What an outcome says, in words."""
    base = outcome.best_seen - outcome.inflation
    relative = f" ({100 * outcome.inflation / base:+.1f}%)" if base > 0 else ""
    among = "of what validation chose" if outcome.chosen is not None else "over fresh reruns"
    return (
        f"{outcome.method}: tuning by the test set would have published {100 * outcome.best_seen:.2f} where "
        f"the honest score {among} is {100 * base:.2f}: {100 * outcome.inflation:+.2f} points{relative}."
    )


def ranking(outcomes: Sequence[Outcome]) -> str:
    """Whether test feedback changes the order of the methods."""
    honest = [o.method for o in sorted(outcomes, key=lambda o: o.inflation - o.best_seen)]
    leaky = [o.method for o in sorted(outcomes, key=lambda o: -o.best_seen)]
    if honest == leaky:
        return f"The order of the methods is the same both ways: {', '.join(honest)}."
    return f"The order of the methods changes: {', '.join(honest)} becomes {', '.join(leaky)}."


def chart(outcomes: Sequence[Outcome], shown: Measure) -> BarChart:
    """Four bars per method: the same networks twice, then retrained."""

    def bar(interval: Interval) -> Bar:
        half = shown.scale * interval.half_width if interval.n > 1 else None
        return Bar(shown.scale * interval.mean, half)

    return BarChart(
        title="The price of test feedback: who chooses among the same networks",
        y_label=f"test {shown.axis}",
        groups=tuple(outcome.method for outcome in outcomes),
        series={
            "validation": {o.method: Bar(shown.scale * (o.best_seen - o.inflation)) for o in outcomes},
            "test (leaky)": {o.method: Bar(shown.scale * o.best_seen) for o in outcomes},
            "validation, retrained": {o.method: bar(o.honest) for o in outcomes},
            "test (leaky), retrained": {o.method: bar(o.retrained) for o in outcomes},
        },
    )
