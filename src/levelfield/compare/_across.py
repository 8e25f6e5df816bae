"""Methods over several experiments: do they rank alike from dataset to dataset?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from levelfield.compare._evidence import Evidence
from levelfield.records import Measure
from levelfield.stats import Friedman, friedman

PROTOCOL = ("split", "trunk", "head", "transform", "batch", "optimizer", "training", "search", "confirm")


@dataclass(frozen=True)
class Across:
    """The methods that several experiments share, ranked over all of them.

    Attributes:
        setting: Of the scores.
        measure: Of the scores.
        cases: Mean scores by experiment and method; only methods that all of them have, no baselines.
        leaders: By experiment, the methods that no other was found better than.
        left_out: Methods that some of the experiments lack.
        differing: Sections of the protocol that are not the same in all experiments.
        test: Friedman's test with Nemenyi's comparison; None with fewer than 2 cases or 3 methods.
    """

    setting: str
    measure: Measure
    cases: dict[str, dict[str, float]]
    leaders: dict[str, frozenset[str]]
    left_out: tuple[str, ...]
    differing: tuple[str, ...]
    test: Friedman | None

    @property
    def sentences(self) -> list[str]:
        """What the ranks say, in words."""
        if self.test is None:
            methods = len(next(iter(self.cases.values()), {}))
            return [
                f"{methods} methods in {len(self.cases)} experiments cannot be ranked: "
                "Friedman's test needs at least 2 experiments with 3 methods in common."
            ]
        test = self.test
        p = "p < 0.001" if test.p_value < 0.001 else f"p = {test.p_value:.3f}"
        told = test.p_value < test.alpha
        lines = [
            f"{'The methods rank differently' if told else 'No difference in rank is shown'} over "
            f"{test.cases} experiments (Friedman {p}); mean ranks that differ by less than "
            f"{test.critical_difference:.2f} are not distinguishable."
        ]
        for (first, second), p_value in test.p_values.items():
            ranks = f"mean ranks {test.mean_ranks[first]:.2f} and {test.mean_ranks[second]:.2f}"
            if told and p_value < test.alpha:
                lines.append(f"{first} is better than {second} ({ranks}, p = {p_value:.3f}).")
            else:
                lines.append(f"{first} and {second} are not distinguishable ({ranks}, p = {p_value:.3f}).")
        return lines


def compare_across(experiments: Sequence[Evidence], *, alpha: float = 0.05) -> Across:
    """Rank the methods that all ``experiments`` have by their mean scores.

    Args:
        experiments: Each weighed for the same setting and metric.
        alpha: Level of the tests.
    """
    scores, leaders = {}, {}
    for name, evidence in zip(case_names(experiments), experiments, strict=True):
        scores[name] = {m: mean for m, mean in evidence.means.items() if m != evidence.comparison.baseline}
        leaders[name] = evidence.leaders[evidence.setting, evidence.metric]
    every = sorted({method for case in scores.values() for method in case})
    common = [method for method in every if all(method in case for case in scores.values())]
    cases = {name: {method: case[method] for method in common} for name, case in scores.items()}
    measure = experiments[0].measure
    sign = -1 if measure.higher_is_better is False else 1  # Friedman's ranks begin at the largest
    ranked_cases = {
        name: {method: sign * score for method, score in case.items()} for name, case in cases.items()
    }
    return Across(
        setting=experiments[0].setting,
        measure=measure,
        cases=cases,
        leaders=leaders,
        left_out=tuple(method for method in every if method not in common),
        differing=tuple(
            section
            for section in PROTOCOL
            if any(_section(e, section) != _section(experiments[0], section) for e in experiments)
        ),
        test=friedman(ranked_cases, alpha=alpha) if len(cases) > 1 and len(common) > 2 else None,
    )


def _section(evidence: Evidence, name: str) -> object:
    """A section of the protocol, without what only decides what is kept to look at."""
    return getattr(evidence.comparison.experiment, name).model_dump(exclude={"gallery"})


def case_names(experiments: Sequence[Evidence]) -> list[str]:
    """What tells the experiments apart: their datasets, else their names, else their folders."""
    for names in (
        [evidence.comparison.experiment.dataset.name for evidence in experiments],
        [evidence.comparison.experiment.name for evidence in experiments],
    ):
        if len(set(names)) == len(names):
            return names
    return [str(evidence.root) for evidence in experiments]
