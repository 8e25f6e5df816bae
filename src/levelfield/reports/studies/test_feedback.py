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

from levelfield.config import Experiment
from levelfield.errors import UsageError
from levelfield.protocol import Comparison, Progress, collect
from levelfield.protocol import run as run_protocol
from levelfield.records import write_text
from levelfield.reports._tables import metric_name, percent
from levelfield.reports.figures.files import write_chart
from levelfield.reports.figures.published import Bar, BarChart
from levelfield.stats import Interval

SETTING = "separated"


@dataclass(frozen=True)
class Outcome:
    """One method under both ways of tuning, by the metric that both were tuned for.

    Attributes:
        method: Its name.
        honest: Test score, tuned by validation, over fresh reruns.
        best_seen: The best test score that tuning by it came across: what used to be published.
        retrained: Test score of that choice over fresh reruns, their epochs again chosen by test score.
        trials: How many sets of hyperparameters were tried.
    """

    method: str
    honest: Interval
    best_seen: float
    retrained: Interval
    trials: int

    @property
    def inflation(self) -> float:
        """How much the number that used to be published is above the honest one."""
        return self.best_seen - self.honest.mean


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
    outcomes = compare_arms(collect(out / "validation"), collect(out / "test"), metric)
    write_text(out / "test-feedback.md", as_markdown(outcomes, experiment))
    facts = [asdict(outcome) | {"inflation": outcome.inflation} for outcome in outcomes]
    write_text(out / "test-feedback.json", json.dumps({"metric": metric, "methods": facts}, indent=1) + "\n")
    write_chart(chart(outcomes, metric), out, "test-feedback")
    return outcomes


def arms(experiment: Experiment) -> tuple[Experiment, Experiment]:
    """The experiment tuned by validation, and by test scores.

    A sampler that learns from scores would try other hyperparameters in each arm; so both draw at random,
    or walk the same grid.
    """
    if experiment.hyperparameters != "search":
        raise UsageError("test-feedback compares two searches; set `hyperparameters: search`")
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


def compare_arms(honest: Comparison, leaky: Comparison, metric: str) -> list[Outcome]:
    """Both arms side by side; methods without a single good rerun are left out."""
    peeking = {result.method: result for result in leaky.trained}
    return [
        Outcome(
            method=result.method,
            honest=result.interval(SETTING, metric),
            best_seen=peeking[result.method].selection["score"],
            retrained=peeking[result.method].interval(SETTING, metric),
            trials=len(result.trials),
        )
        for result in honest.trained
        if result.scores[SETTING][metric] and peeking[result.method].scores[SETTING][metric]
    ]


def as_markdown(outcomes: Sequence[Outcome], experiment: Experiment) -> str:
    """The outcomes as a table, with what it says in words."""
    metric = metric_name(experiment.training.metric)
    lines = [
        "# The price of test feedback",
        "",
        f"{experiment.dataset.name}, test {metric} in percent, single models. Both arms trained on the same "
        "images and tried the same hyperparameters; in one, validation classes chose hyperparameters and "
        'epochs, in the other the test set did (**leaky**). "Best seen" is the best score that tuning by '
        "the test set came across, which is what used to be published.",
        "",
        "| method | trials | tuned by validation | leaky: retrained | leaky: best seen | inflation |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {o.method} | {o.trials} | {percent(o.honest)} | {percent(o.retrained)} | {100 * o.best_seen:.2f} "
        f"| {100 * o.inflation:+.2f} |"
        for o in outcomes
    ]
    lines += ["", *(f"- {sentence(outcome)}" for outcome in outcomes), f"- {ranking(outcomes)}", ""]
    return "\n".join(lines)


def sentence(outcome: Outcome) -> str:
    """What an outcome says, in words."""
    relative = 100 * outcome.inflation / outcome.honest.mean if outcome.honest.mean else float("nan")
    direction = "above" if outcome.inflation > 0 else "below"
    inside = outcome.honest.contains(outcome.best_seen)
    doubt = ", which is within its interval" if inside else ""
    return (
        f"{outcome.method}: tuning by the test set would have published {100 * outcome.best_seen:.2f}, "
        f"{abs(100 * outcome.inflation):.2f} points ({abs(relative):.1f}%) {direction} the honest "
        f"{percent(outcome.honest)}{doubt}."
    )


def ranking(outcomes: Sequence[Outcome]) -> str:
    """Whether test feedback changes the order of the methods."""
    honest = [o.method for o in sorted(outcomes, key=lambda o: -o.honest.mean)]
    leaky = [o.method for o in sorted(outcomes, key=lambda o: -o.best_seen)]
    if honest == leaky:
        return f"The order of the methods is the same both ways: {', '.join(honest)}."
    return f"The order of the methods changes: {', '.join(honest)} becomes {', '.join(leaky)}."


def chart(outcomes: Sequence[Outcome], metric: str) -> BarChart:
    """Three bars per method."""
    return BarChart(
        title="The price of test feedback (the second and third bars are leaky)",
        y_label=f"test {metric_name(metric)} (%)",
        groups=tuple(outcome.method for outcome in outcomes),
        series={
            "tuned by validation": {o.method: _bar(o.honest) for o in outcomes},
            "tuned by test, retrained": {o.method: _bar(o.retrained) for o in outcomes},
            "tuned by test, best seen": {o.method: Bar(100 * o.best_seen) for o in outcomes},
        },
    )


def _bar(interval: Interval) -> Bar:
    return Bar(100 * interval.mean, 100 * interval.half_width if interval.n > 1 else None)
