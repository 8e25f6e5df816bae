"""Variances over replicates are learned as the plain version learns them; bad searches stop the verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.verdicts import noise_moments, pairs, step_down_p_values, without_shared_luck

from levelfield.core.errors import UsageError
from levelfield.stats import World, alarm_rate, fit_world, judge, judge_together, rerun_table
from levelfield.stats._replicate_noise import replicate_noise
from levelfield.stats._simultaneous import Errors, simultaneous

CARS = World(
    methods=12,
    searches=3,
    reruns=4,
    classes=60,
    class_sd=0.5,
    residual_sd=0.5,
    rerun_sd=0.06,
    rerun_width=0.5,
    search_sd=0.2,
    search_width=0.6,
)


@pytest.mark.parametrize("bad", [False, True])
def test_the_learned_noise_is_that_of_the_plain_version(bad: bool) -> None:
    generator = np.random.default_rng(3)
    scores = generator.standard_normal((3, 3)) * np.array([1.0, 0.3, 2.0])[:, None]
    if bad:
        scores[0, 1] -= 12.0
    table = rerun_table({str(m): row for m, row in enumerate(scores)})
    base = np.array([0.05, 0.02, 0.0])
    noise = replicate_noise(table, base)
    assert noise is not None
    draws = noise.draw(200_000, np.random.default_rng(0))
    first, second, rate = noise_moments(scores.tolist(), base.tolist())
    assert noise.bad_rate == pytest.approx(rate, rel=0.1)
    found = (draws.variance + draws.shift**2).mean(axis=1)
    # cases of little weight are left out, and the largest variances are rare
    assert found == pytest.approx(second, rel=0.15)
    assert draws.shift.mean(axis=1) == pytest.approx(first, abs=0.02 * np.sqrt(max(second)))


def test_the_step_down_is_that_of_the_plain_version() -> None:
    i, j = np.triu_indices(4, 1)
    gaps = np.array([2.9, 0.4, 3.4, 2.5, 0.5, 3.0])
    errors = Errors(np.eye(4), np.inf, None, np.zeros(4))
    found = simultaneous(gaps, errors, i, j, alpha=0.05, draws=40_000, seed=0)
    means = np.random.default_rng(1).standard_normal((3_000, 4))
    plain = step_down_p_values(gaps, np.array([[abs(m[a] - m[b]) for a, b in pairs(4)] for m in means]))
    assert [found.p_adjusted[k] for k in range(6)] == pytest.approx([plain[k] for k in range(6)], abs=0.03)


@pytest.mark.slow
def test_nothing_is_judged_where_searches_go_badly_and_the_reason_names_a_remedy() -> None:
    scores = {str(m): [0.5, 0.5, 0.5 + 0.001 * m] for m in range(12)}
    generator = np.random.default_rng(0)
    table = {}
    for name in scores:
        level = 0.5 + 0.0005 * generator.standard_normal(3)
        level[generator.random(3) < 0.4] -= 0.1
        table[name] = level[:, None] + 0.0005 * generator.standard_normal((3, 2))
    judgment = judge(rerun_table(table), equivalence=0.01)
    assert "went badly" in judgment.refusal and "plan at least" in judgment.refusal
    assert judgment.caveats[0] == judgment.refusal
    assert {pair.verdict for pair in judgment.pairs} == {"undecided"}
    assert all(np.isinf(pair.high) for pair in judgment.pairs)
    # the same methods without bad searches are judged
    calm = {name: np.full((3, 2), 0.5) + 0.0005 * generator.standard_normal((3, 2)) for name in scores}
    assert judge(rerun_table(calm)).refusal == ""


def test_bad_searches_are_found_below_or_above_depending_on_the_direction() -> None:
    generator = np.random.default_rng(2)
    values = generator.standard_normal((8, 5)) * 0.1
    values[generator.random((8, 5)) < 0.25] -= 3.0
    table = {str(m): row for m, row in enumerate(values)}
    turned = {name: -row for name, row in table.items()}
    low = replicate_noise(rerun_table(table), np.zeros(8))
    high = replicate_noise(rerun_table(turned), np.zeros(8), sign=-1)
    assert low is not None and high is not None
    assert low.bad_rate == pytest.approx(high.bad_rate) and low.bad_rate > 0.1


def test_a_fitted_world_has_the_spreads_of_the_record() -> None:
    generator = np.random.default_rng(5)
    fits = [fit_world(CARS.draw(generator)) for _ in range(12)]
    for name, rel in (("class_sd", 0.15), ("rerun_sd", 0.2), ("search_sd", 0.3)):
        assert np.median([getattr(fit, name) for fit in fits]) == pytest.approx(getattr(CARS, name), rel=rel)
    assert 0.3 < np.median([fit.search_width for fit in fits]) < 0.9
    assert {(fit.methods, fit.searches, fit.reruns, fit.classes) for fit in fits} == {(12, 3, 4, 60)}


@pytest.mark.slow
def test_the_rate_of_a_fitted_world_is_a_sentence() -> None:
    found = alarm_rate(CARS, simulations=30, draws=200)
    assert found.alarms <= 8
    assert found.sentence.startswith("In 30 simulated records like this one, without any difference")
    assert alarm_rate(CARS, simulations=30, draws=200) == found


def test_luck_that_all_share_is_taken_out_as_in_the_plain_version_however_large() -> None:
    generator = np.random.default_rng(4)
    scores = generator.standard_normal((14, 3)) + 50 * np.arange(3)
    noise = replicate_noise(rerun_table({str(m): row for m, row in enumerate(scores)}), np.zeros(14))
    assert noise is not None
    for row, plain in zip(noise.values, without_shared_luck(scores.tolist()), strict=True):
        assert row == pytest.approx(plain)
    assert 0.6 < noise.squares.mean() / 2 < 1.6


def test_methods_that_differ_on_one_dataset_only_do_not_differ_in_general() -> None:
    generator = np.random.default_rng(6)
    sure = {str(m): 4.0 * (m == 0) for m in range(12)}
    local = {str(m): 4.0 * (m == 1) for m in range(12)}
    tables = {}
    for number, name in enumerate(("birds", "cars", "dogs")):
        gains = np.array([sure[str(m)] + local[str(m)] * (number == 1) for m in range(12)])
        tables[name] = CARS.draw(generator, gains + 20 * number + 0.2 * generator.standard_normal(12))
    found = judge_together(tables, draws=4_000)
    better = {(pair.first, pair.second) for pair in found.pairs if pair.verdict == "better"}
    assert better == {("0", str(m)) for m in range(2, 12)} | ({("0", "1")} & better)
    assert found.sentence.startswith("What repeats over birds, cars and dogs: ")
    assert "0" in found.leaders and found.interaction > found.error
    with pytest.raises(UsageError, match="at least two"):
        judge_together({"birds": tables["birds"]})
