"""What the budget of an experiment can tell, estimated from its own records."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.compare._evidence import Evidence, table_of
from levelfield.errors import UsageError
from levelfield.stats import Budget, Components, cheapest_budget, components, detectable_difference

OTHER_RERUNS = (3, 5, 10, 20)


@dataclass(frozen=True)
class Power:
    """What can be told apart on this test set.

    Attributes:
        parts: Where the chance in a difference comes from.
        methods: How many methods are compared.
        classes: Of the test set.
        reruns: Of each search's selection, as recorded.
        repeats: Searches per method, as recorded.
        detectable: The difference that this budget finds with the wanted power.
        ladder: The same for other numbers of reruns.
        wanted: A difference that is asked for, or None.
        budget: The cheapest budget that finds it; None if none within reach does, or nothing is asked for.
    """

    parts: Components
    methods: int
    classes: int
    reruns: int
    repeats: int
    detectable: float
    ladder: dict[int, float]
    wanted: float | None = None
    budget: Budget | None = None


def power_of(evidence: Evidence, *, difference: float | None = None, power: float = 0.8) -> Power:
    """Answer from the records at hand: which difference this budget tells, and what a wanted one needs.

    Args:
        evidence: A weighed experiment; its setting and metric are asked about.
        difference: Wanted, in the scale of the scores: 0.005 is half a point.
        power: The chance of finding it.
    """
    table = table_of(evidence.confirmations, evidence.setting, evidence.measure)
    if table is None:
        raise UsageError(
            f"{evidence.root} has no test scores yet, which power is estimated from; finish `levelfield run`"
        )
    if table.shares is None:
        raise UsageError(
            f"{evidence.root} has no values per query of {evidence.metric}, so the share of the classes in "
            "chance is unknown; choose a metric that has them, such as map_at_r"
        )
    parts = components(table)
    experiment = evidence.comparison.experiment
    trained = [result for result in evidence.comparison.trained if result.method in evidence.confirmations]
    methods, classes = max(2, len(trained)), len(table.shares)
    reruns, repeats = experiment.confirm.reruns, experiment.search.repeats

    def found(reruns: int) -> float:
        return detectable_difference(
            parts, methods=methods, classes=classes, reruns=reruns, repeats=repeats, power=power
        )

    budget = None
    if difference is not None:
        budget = cheapest_budget(
            parts,
            difference,
            methods=methods,
            classes=classes,
            trials=max((len(result.trials) for result in trained), default=0),
            power=power,
        )
    return Power(
        parts=parts,
        methods=methods,
        classes=classes,
        reruns=reruns,
        repeats=repeats,
        detectable=found(reruns),
        ladder={count: found(count) for count in OTHER_RERUNS},
        wanted=difference,
        budget=budget,
    )
