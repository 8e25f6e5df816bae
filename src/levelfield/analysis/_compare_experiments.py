"""Methods over several experiments: which differ in general, and how they rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from levelfield.analysis._analyze import Analysis, build_score_table
from levelfield.records import MetricInfo
from levelfield.stats import Friedman, PooledJudgment, friedman, judge_together

PROTOCOL = ("split", "trunk", "head", "transform", "batch", "optimizer", "training", "search", "confirm")


@dataclass(frozen=True)
class ExperimentsComparison:
    """Ranks of the methods that all of several experiments have.

    Attributes:
        setting: Setting of the scores: "concatenated" or "separated".
        metric_info: Metric of the scores.
        cases: Mean scores by experiment and method, without baselines; only methods of all experiments.
        leaders: Methods that no other was found better than, by experiment.
        left_out: Methods that some experiments do not have.
        differing: Sections of the protocol that differ between the experiments.
        test: Friedman test with Nemenyi comparison; None with fewer than 2 experiments or 3 methods.
        together: Verdicts in general, from all experiments together; None with fewer than 2 experiments or 2
            methods, or for a metric without a direction.
    """

    setting: str
    metric_info: MetricInfo
    cases: dict[str, dict[str, float]]
    leaders: dict[str, frozenset[str]]
    left_out: tuple[str, ...]
    differing: tuple[str, ...]
    test: Friedman | None
    together: PooledJudgment | None = None

    @property
    def sentences(self) -> list[str]:
        """Repeated findings, pairs that differ in general or in rank, and the ranking, one sentence each."""
        return [*self._general(), *self._ranking()]

    def _general(self) -> list[str]:
        if self.together is None:
            return []
        unit = " points" if self.metric_info.unit == "percent" else ""
        return [
            self.together.sentence,
            *(
                f"In general, {pair.sentence(shown=self.metric_info.shown, unit=unit)}"
                for pair in self.together.pairs
                if pair.verdict in ("better", "worse")
            ),
        ]

    def _ranking(self) -> list[str]:
        if self.test is None:
            methods = len(next(iter(self.cases.values()), {}))
            return [
                f"{methods} methods in {len(self.cases)} experiments cannot be ranked: "
                "Friedman's test needs at least 2 experiments with 3 methods in common."
            ]
        test = self.test
        p = "p < 0.001" if test.p_value < 0.001 else f"p = {test.p_value:.3f}"
        significant = test.p_value < test.alpha
        lines = [
            f"{'The methods rank differently' if significant else 'No difference in rank is shown'} over "
            f"{test.cases} experiments (Friedman {p}); mean ranks that differ by less than "
            f"{test.critical_difference:.2f} are not distinguishable."
        ]
        for (first, second), p_value in test.p_values.items():
            if significant and p_value < test.alpha:
                ranks = f"mean ranks {test.mean_ranks[first]:.2f} and {test.mean_ranks[second]:.2f}"
                lines.append(f"{first} is better than {second} ({ranks}, p = {p_value:.3f}).")
        return lines


def compare_experiments(experiments: Sequence[Analysis], *, alpha: float = 0.05) -> ExperimentsComparison:
    """Judge and rank the methods that all ``experiments`` have.

    Args:
        experiments: Analysis of each experiment, for the same setting and metric.
        alpha: Significance level of the tests.
    """
    scores, leaders = {}, {}
    for name, analysis in zip(experiment_labels(experiments), experiments, strict=True):
        scores[name] = {m: mean for m, mean in analysis.means.items() if m != analysis.comparison.baseline}
        leaders[name] = analysis.leaders[analysis.setting, analysis.metric]
    every = sorted({method for case in scores.values() for method in case})
    common = [method for method in every if all(method in case for case in scores.values())]
    cases = {name: {method: case[method] for method in common} for name, case in scores.items()}
    metric_info = experiments[0].metric_info
    sign = metric_info.sign  # friedman() gives rank 1 to the largest
    ranked_cases = {
        name: {method: sign * score for method, score in case.items()} for name, case in cases.items()
    }
    return ExperimentsComparison(
        setting=experiments[0].setting,
        metric_info=metric_info,
        cases=cases,
        leaders=leaders,
        left_out=tuple(method for method in every if method not in common),
        differing=tuple(
            section
            for section in PROTOCOL
            if any(_section(e, section) != _section(experiments[0], section) for e in experiments)
        ),
        test=friedman(ranked_cases, alpha=alpha) if len(cases) > 1 and len(common) > 2 else None,
        together=_together(experiments, common, alpha),
    )


def _together(experiments: Sequence[Analysis], common: list[str], alpha: float) -> PooledJudgment | None:
    """Return the verdicts in general on the methods that all experiments have; None if there are too few."""
    metric_info = experiments[0].metric_info
    if len(experiments) < 2 or len(common) < 2 or metric_info.higher_is_better is None:
        return None
    tables = {}
    for name, analysis in zip(experiment_labels(experiments), experiments, strict=True):
        chosen = {method: analysis.confirmations[method] for method in common}
        if any(confirmation.fixed for confirmation in chosen.values()):
            return None
        table = build_score_table(chosen, analysis.setting, metric_info)
        if table is None:
            return None
        tables[name] = table
    if len(tables) < 2:  # the same directory twice
        return None
    return judge_together(tables, alpha=alpha, higher_is_better=metric_info.higher_is_better)


def _section(analysis: Analysis, name: str) -> object:
    """Return a section of the protocol, without the settings of the retrieval gallery."""
    return getattr(analysis.comparison.experiment, name).model_dump(exclude={"gallery"})


def experiment_labels(experiments: Sequence[Analysis]) -> list[str]:
    """Return distinct labels of the experiments: dataset names, else experiment names, else directories."""
    for names in (
        [analysis.comparison.experiment.dataset.name for analysis in experiments],
        [analysis.comparison.experiment.name for analysis in experiments],
    ):
        if len(set(names)) == len(names):
            return names
    return [str(analysis.root) for analysis in experiments]
