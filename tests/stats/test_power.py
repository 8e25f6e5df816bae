"""A planned budget detects the difference that it was planned for."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.oracles.score_worlds import class_means, likely

from benchmarks.statistics.error_rates import HERE, cells
from levelfield.core.errors import UsageError
from levelfield.stats import (
    VarianceComponents,
    World,
    cheapest_budget,
    detectable_difference,
    judge,
    plan_budgets,
    rerun_table,
    score_table,
    variance_components,
)

SPREADS: dict[str, Any] = {"own": 0.6, "run": 0.5, "seed": 0.3, "correlation": 0.5, "classes": 50}


def table_of(values):
    return score_table({str(m): part for m, part in enumerate(values)}, classes=None)


def truth(*, search: float | None) -> VarianceComponents:
    return VarianceComponents(
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
        variance_components(
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


@pytest.mark.slow
def test_the_planned_power_is_had():
    plan = {"methods": 4, "reruns": 5}
    gap = detectable_difference(truth(search=None), classes=50, **plan)
    generator, hits, trials = np.random.default_rng(1), 0, 300
    for trial in range(trials):
        values = class_means(generator, **plan, **SPREADS)
        values[0] += gap
        hits += judge(table_of(values), draws=500, seed=trial).pair("0", "1").verdict == "better"
    assert likely(0.75, trials)[0] <= hits <= likely(0.85, trials)[1]


def test_the_planned_intervals_are_those_of_simulated_records():
    """In worlds with methods of moderately unequal luck; 2 to 30 methods, 2 to 20 replicates."""
    simulated = json.loads((HERE / "error_rates.json").read_text())["null"]
    compared = 0
    for name, world in cells(World).items():
        plain = not (world.heavy or world.bad or world.wild > 1)
        if not plain or world.search_width > 0.5:
            continue

        def typical(sd, width):
            return 2 * sd**2 * np.exp(2 * width**2)

        parts = VarianceComponents(
            classes=typical(world.class_sd, world.class_width),
            seeds=typical(world.rerun_sd, world.rerun_width) * (1 - world.shared),
            search=typical(world.search_sd, world.search_width) if world.searches > 1 else None,
            residual=2 * world.residual_sd**2,
        )
        budget = {"classes": world.classes, "reruns": world.reruns, "repeats": world.searches}
        planned = detectable_difference(parts, methods=world.methods, power=0.5, **budget)
        half = simulated[name]["half"] / simulated[name]["judged"]
        assert 0.9 < half / planned < 1.05, name
        compared += 1
    assert compared > 10


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
    # the variance of the search is known, so searches are repeated; expensive ones less often
    cheap = cheapest_budget(truth(search=0.4), 1.2, trials=1, **plan)
    dear = cheapest_budget(truth(search=0.4), 1.2, trials=100, **plan)
    assert cheap is not None and dear is not None
    assert 2 <= dear.repeats <= cheap.repeats and dear.reruns >= cheap.reruns
    assert dear.detectable <= 1.2


def test_mixes_of_a_budget_come_cheapest_first_and_each_is_just_enough():
    parts, wanted = truth(search=0.4), 0.8
    plans = plan_budgets(
        parts, wanted, methods=4, classes=50, search_luck={5: 2.0, 10: 1.0, 20: 0.5}, folds=2
    )
    assert [plan.runs for plan in plans] == sorted(plan.runs for plan in plans) and len(plans) >= 2
    assert len({plan.classes for plan in plans}) == len(plans)
    for plan in plans:
        assert plan.runs == 2 * plan.repeats * (plan.trials + plan.reruns) and plan.detectable <= wanted
    # what no number of searches on this test set finds, more than 50 searches or more classes may
    small = plan_budgets(parts, 0.3, methods=4, classes=50, search_luck={10: 1.0})
    assert small and min(plan.classes for plan in small) > 50
    many = cheapest_budget(truth(search=4.0), 1.6, methods=4, classes=5000, trials=1)
    assert many is not None and many.repeats > 50


def test_a_fixed_method_without_a_second_search_raises_no_warning(recwarn):
    generator = np.random.default_rng(2)
    values = class_means(generator, methods=3, reruns=3, repeats=3, search=0.3, classes=20)
    scores = {"a": values[0], "b": values[1], "net": values[2, :1, :1]}
    assert variance_components(score_table(scores, classes=None, fixed=["net"])).search is not None
    assert not recwarn.list


def test_bad_plans():
    with pytest.raises(UsageError, match="at least two reruns"):
        variance_components(rerun_table({"a": [1.0], "b": [2.0]}))
    with pytest.raises(UsageError, match="2 reruns"):
        detectable_difference(truth(search=None), methods=2, classes=10, reruns=1)
    with pytest.raises(UsageError, match="above 0"):
        cheapest_budget(truth(search=None), 0.0, methods=2, classes=10, trials=5)
