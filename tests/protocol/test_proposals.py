"""Proposals are fast to compute, and equal those of the slow, obvious implementation."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest
import torch

from levelfield.core.optuna import to_optuna_distribution
from levelfield.core.seeds import seed_for
from levelfield.core.space import Choice, Dimension, Float, Int
from levelfield.protocol.search import _optimizer
from levelfield.protocol.search._optimizer import Observation, suggest
from levelfield.protocol.search._proposals import ProposalRequest, compute_proposals

SPACE: dict[str, Dimension] = {
    "lr": Float(1e-6, 1.0, log=True),
    "margin": Float(0.0, 1.0),
    "k": Int(1, 9),
    "kind": Choice("a", "b"),
}


def observed(count: int, seed: int = 0) -> list[Observation]:
    chance = random.Random(seed)
    return [
        Observation(
            {
                "lr": 10 ** chance.uniform(-6, 0),
                "margin": chance.random(),
                "k": chance.randint(1, 9),
                "kind": chance.choice("ab"),
            },
            chance.random(),
        )
        for _ in range(count)
    ]


def slow_and_obvious(seen: list[Observation], *, sampler: str, seed: int, number: int) -> Any:
    """Use a study of plain trials, each added as in Optuna's guide."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {name: to_optuna_distribution(dimension) for name, dimension in SPACE.items()}
    made = _optimizer._sampler(sampler, seed_for(seed, "suggest", number) % 2**32)
    study = optuna.create_study(direction="maximize", sampler=made)
    for each in seen:
        study.add_trial(
            optuna.trial.create_trial(
                params=each.hyperparameters, distributions=distributions, value=each.score
            )
        )
    return study.ask(fixed_distributions=distributions).params


@pytest.mark.parametrize("sampler", ["gp", "tpe", "random"])
@pytest.mark.parametrize("count", [3, 12, 40])
def test_the_quick_way_proposes_what_the_slow_one_does(sampler: str, count: int) -> None:
    seen = observed(count)
    found = suggest(SPACE, seen, sampler=sampler, seed=7, number=count)
    assert found == slow_and_obvious(seen, sampler=sampler, seed=7, number=count)


def test_a_long_search_is_limited_to_its_latest_trials_and_a_spread() -> None:
    seen = observed(50)
    assert _optimizer.limit_trials(seen, 50) is seen
    kept = _optimizer.limit_trials(seen, 31)
    assert len(kept) == 31 and [each for each in seen if each in kept] == kept, "in their order"
    assert kept[-15:] == seen[-15:] and kept[0] is seen[0]


def test_a_long_search_still_finds_the_best_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeping the trials with the best scores would fail here: the best of many noisy scores mislead."""
    chance = random.Random(3)
    space = {"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}

    def height(point: dict[str, Any]) -> float:
        return 1 - (point["x"] - 0.3) ** 2 - (point["y"] - 0.8) ** 2

    points: list[dict[str, Any]] = [{"x": chance.random(), "y": chance.random()} for _ in range(120)]
    seen = [Observation(point, height(point) + chance.gauss(0, 0.02)) for point in points]
    monkeypatch.setattr(_optimizer, "GP_MEMORY", 45)
    few = [suggest(space, seen, sampler="gp", seed=seed, number=120) for seed in range(3)]
    monkeypatch.setattr(_optimizer, "GP_MEMORY", 120)
    whole = [suggest(space, seen, sampler="gp", seed=seed, number=120) for seed in range(3)]
    assert all(point is not None and height(point) > 0.97 for point in [*few, *whole])


def test_threads_are_as_they_were_afterwards() -> None:
    before = torch.get_num_threads()
    suggest(SPACE, observed(8), sampler="gp", seed=0, number=8, threads=before + 1)
    assert torch.get_num_threads() == before


def test_any_process_can_compute_proposals() -> None:
    """The request contains everything that the proposals depend on."""
    request = ProposalRequest(
        space=SPACE,
        numbers=(9, 10),
        observed=tuple(observed(9)),
        running_score=0.5,
        running=(),
        first=None,
        sampler="tpe",
        seed=3,
        threads=1,
    )
    one, two = compute_proposals(request)
    assert compute_proposals(pickle.loads(pickle.dumps(request))) == [one, two] and one != two
    assert not request.is_quick
