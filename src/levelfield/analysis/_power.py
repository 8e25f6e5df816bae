"""Statistical power of an experiment, estimated from its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from levelfield.analysis._analyze import Analysis, build_score_table
from levelfield.analysis._results import MethodResult
from levelfield.core.errors import UsageError
from levelfield.records import MetricInfo, Store
from levelfield.stats import (
    Budget,
    VarianceComponents,
    cheapest_budget,
    detectable_difference,
    plan_budgets,
    variance_components,
)

OTHER_RERUNS = (3, 5, 10, 20)
OTHER_SEARCHES = (3, 5, 10, 20, 50, 100, 200, 500, 1000)
TRIAL_SHARES = (0.5, 1.0, 2.0)  # of the recorded trials per search
SHOWN_PLANS = 5
RESAMPLES = 400


@dataclass(frozen=True, kw_only=True)
class PowerEstimate:
    """Detectable difference for the budget of an experiment, and for other budgets.

    Attributes:
        parts: Variance components of a difference.
        methods: Number of compared methods.
        classes: Number of test classes.
        reruns: Reruns per search, as recorded.
        repeats: Searches per method, as recorded.
        detectable: Difference that this budget detects with the wanted power, as a score.
        ladder: Detectable difference by number of reruns.
        searches: Detectable difference by number of searches, until ``wanted`` is reached.
        wanted: Difference to detect, or None.
        budget: Cheapest budget that detects ``wanted``; None if there is none, or ``wanted`` is None.
        plans: Mixes of searches, trials, reruns and classes that detect ``wanted``, cheapest first.
        trials: Trials per search, as recorded.
        seconds: Mean time of one training, as recorded; None if unknown.
        metric_info: Label, unit and direction of the metric.
    """

    parts: VarianceComponents
    methods: int
    classes: int
    reruns: int
    repeats: int
    detectable: float
    ladder: dict[int, float]
    wanted: float | None = None
    budget: Budget | None = None
    searches: dict[int, float]
    plans: tuple[Budget, ...] = ()
    trials: int = 0
    seconds: float | None = None
    metric_info: MetricInfo

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate for JSON; scores are fractions."""
        return {name: value for name, value in asdict(self).items() if name != "metric_info"}


def estimate_power(
    analysis: Analysis, *, difference: float | None = None, power: float = 0.8
) -> PowerEstimate:
    """Estimate the difference that the budget of an experiment can detect, and the budget for another one.

    Args:
        analysis: Analysis of the experiment; gives setting and metric.
        difference: Difference to detect, as a score: 0.005 is half a point.
        power: Probability of detecting it.

    Raises:
        UsageError: The experiment has no test scores yet, or no values per query of the metric.
    """
    table = build_score_table(analysis.confirmations, analysis.setting, analysis.metric_info)
    if table is None:
        raise UsageError(f"{analysis.root} has no test scores yet; finish `levelfield run` first")
    if table.class_shares is None:
        raise UsageError(
            f"{analysis.root} has no values per query of {analysis.metric}, so the variance between classes "
            "is unknown; choose a metric that has them, such as map_at_r"
        )
    parts = variance_components(table)
    experiment = analysis.comparison.experiment
    trained = [result for result in analysis.comparison.trained if result.method in analysis.confirmations]
    methods, classes = max(2, len(trained)), len(table.class_shares)
    reruns, repeats = experiment.confirm.reruns, experiment.search.repeats

    trials = max((len(repeat.trials) for result in trained for repeat in result.repeats), default=0)

    def detectable(reruns: int, repeats: int = repeats) -> float:
        return detectable_difference(
            parts, methods=methods, classes=classes, reruns=reruns, repeats=repeats, power=power
        )

    budget, plans = None, []
    if difference is not None:
        budget = cheapest_budget(
            parts, difference, methods=methods, classes=classes, trials=trials, power=power
        )
        plans = plan_budgets(
            parts,
            difference,
            methods=methods,
            classes=classes,
            search_luck=_search_luck(trained, trials),
            folds=_runs_per_trial(trained),
            power=power,
        )
    return PowerEstimate(
        parts=parts,
        methods=methods,
        classes=classes,
        reruns=reruns,
        repeats=repeats,
        detectable=detectable(reruns),
        ladder={count: detectable(count) for count in OTHER_RERUNS},
        searches={} if parts.search is None else _until(detectable, reruns, difference),
        wanted=difference,
        budget=budget,
        plans=tuple(plans[:SHOWN_PLANS]),
        trials=trials,
        seconds=_seconds_per_run(analysis, trained),
        metric_info=analysis.metric_info,
    )


def _until(detectable: Callable[[int, int], float], reruns: int, wanted: float | None) -> dict[int, float]:
    """Return the detectable difference by number of searches; the list ends where ``wanted`` is reached."""
    found = {}
    for count in OTHER_SEARCHES:
        found[count] = detectable(reruns, count)
        if (wanted is None and count >= 20) or (wanted is not None and found[count] <= wanted):
            break
    return found


def _search_luck(trained: Sequence[MethodResult], trials: int) -> dict[int, float]:
    """Return the variance of a search by its number of trials, relative to the recorded number.

    The best of some recorded trials is drawn again and again; its validation score varies as a search does.
    """
    counts = sorted({max(1, round(share * trials)) for share in TRIAL_SHARES}) if trials > 1 else [trials]
    scores = [
        np.array([t.score for repeat in result.repeats for t in repeat.trials if t.score is not None])
        for result in trained
    ]
    scores = [each for each in scores if len(each) > 1]
    if trials < 2 or not scores:
        return {trials: 1.0}
    generator = np.random.default_rng(0)
    variance = {
        count: float(
            np.median([generator.choice(each, (RESAMPLES, count)).max(axis=1).var() for each in scores])
        )
        for count in {*counts, trials}
    }
    base = variance[trials]
    # few recorded trials repeat their best one too often: no more is hoped for than half the variance
    return {
        count: max(variance[count] / base if base > 0 else 1.0, min(trials / count, 1.0)) for count in counts
    }


def _runs_per_trial(trained: Sequence[MethodResult]) -> int:
    """Return the number of trainings of one trial: the number of folds."""
    sizes = [len(trial.runs) for result in trained for repeat in result.repeats for trial in repeat.trials]
    return max(sizes, default=1) or 1


def _seconds_per_run(analysis: Analysis, trained: Sequence[MethodResult]) -> float | None:
    """Return the mean time of the recorded trainings; None if no time is on record."""
    store = Store(analysis.root)
    runs = [run for result in trained for repeat in result.repeats for t in repeat.trials for run in t.runs]
    found = [p.seconds for p in (store.run(run).provenance() for run in runs) if p is not None]
    return float(np.mean(found)) if found else None
