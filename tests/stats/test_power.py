"""The budget that is planned finds the difference that it was planned for."""

from __future__ import annotations

import numpy as np
import pytest

from levelfield.errors import UsageError
from levelfield.stats import (
    Components,
    cheapest_budget,
    components,
    detectable_difference,
    judge,
    rerun_table,
    score_table,
)
from oracles.score_worlds import class_means, likely

SPREADS = {"own": 0.6, "run": 0.5, "seed": 0.3, "correlation": 0.5, "classes": 50}


def table_of(values):
    return score_table({str(m): part for m, part in enumerate(values)}, classes=None)


def truth(*, search: float | None) -> Components:
    return Components(
        classes=2 * 0.6**2,
        seeds=2 * 0.5 * 0.3**2,
        search=None if search is None else 2 * search**2,
        residual=2 * 0.5**2,
    )


@pytest.mark.parametrize("repeats", [1, 4])
def test_components_are_found_again(repeats):
    generator = np.random.default_rng(0)
    search = 0.4 if repeats > 1 else 0.0
    found = [
        components(
            table_of(class_means(generator, methods=5, reruns=5, repeats=repeats, search=search, **SPREADS))
        )
        for _ in range(60)
    ]
    wanted = truth(search=search if repeats > 1 else None)
    for part in ("classes", "seeds", "residual"):
        assert np.mean([getattr(c, part) for c in found]) == pytest.approx(getattr(wanted, part), rel=0.15)
    if repeats == 1:
        assert all(c.search is None for c in found)
    else:
        assert np.mean([c.search for c in found]) == pytest.approx(wanted.search, rel=0.2)


def test_the_planned_power_is_had():
    plan = {"methods": 4, "reruns": 5}
    gap = detectable_difference(truth(search=None), classes=50, **plan)
    generator, hits, trials = np.random.default_rng(1), 0, 300
    for trial in range(trials):
        values = class_means(generator, **plan, **SPREADS)
        values[0] += gap
        hits += judge(table_of(values), draws=500, seed=trial).pair("0", "1").verdict == "better"
    assert likely(0.75, trials)[0] <= hits <= likely(0.85, trials)[1]


def test_more_budget_tells_more_and_more_methods_tell_less():
    def gap(**changes):
        return detectable_difference(
            truth(search=0.4), **{"methods": 4, "classes": 50, "reruns": 5, "repeats": 3, **changes}
        )

    assert gap(reruns=10) < gap() < gap(methods=14)
    assert gap(repeats=6) < gap() and gap(classes=500) < gap()
    assert gap(power=0.5) < gap() < gap(alpha=0.01)


def test_the_cheapest_budget_is_just_enough():
    parts, plan = truth(search=None), {"methods": 4, "classes": 50}
    wanted = detectable_difference(parts, reruns=7, **plan)
    budget = cheapest_budget(parts, wanted, trials=20, **plan)
    assert budget is not None and (budget.reruns, budget.repeats) == (7, 1)
    assert cheapest_budget(parts, wanted / 10, trials=20, **plan) is None
    # the luck of the search is known: it must be paid for, and dear searches are repeated less
    cheap = cheapest_budget(truth(search=0.4), 1.2, trials=1, **plan)
    dear = cheapest_budget(truth(search=0.4), 1.2, trials=100, **plan)
    assert cheap is not None and dear is not None
    assert 2 <= dear.repeats <= cheap.repeats and dear.reruns >= cheap.reruns
    assert dear.detectable <= 1.2


def test_bad_plans():
    with pytest.raises(UsageError, match="at least two reruns"):
        components(rerun_table({"a": [1.0], "b": [2.0]}))
    with pytest.raises(UsageError, match="2 reruns"):
        detectable_difference(truth(search=None), methods=2, classes=10, reruns=1)
    with pytest.raises(UsageError, match="above 0"):
        cheapest_budget(truth(search=None), 0.0, methods=2, classes=10, trials=5)
