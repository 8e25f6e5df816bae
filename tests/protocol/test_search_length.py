"""A search may be shorter than the confirmation, and a grid is used up point by point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.analysis import read_comparison, verify
from levelfield.config import Experiment
from levelfield.core.space import Choice, Dimension, Float, Int
from levelfield.protocol import resolve_experiment
from levelfield.protocol._plan import plan
from levelfield.protocol.search._optimizer import grid_size, grid_trials, suggest
from levelfield.protocol.search._search import search_record
from levelfield.protocol.spec._resolve import _method
from levelfield.records import Store

SPACE: dict[str, Dimension] = {
    "margin": Float(0.0, 1.0, step=0.5),
    "kind": Choice("a", "b"),
    "count": Int(1, 2),
}


@pytest.fixture
def short(tiny: dict[str, Any]) -> dict[str, Any]:
    tiny["training"] = {"iterations_per_epoch": 1, "max_epochs": 3, "evaluate_every": 1, "patience": None}
    tiny["search"] = {"trials": 1, "sampler": "random", "max_epochs": 1}
    return tiny | {"methods": ["triplet"], "confirm": {"reruns": 1, "gallery": 0}}


def test_trials_are_short_and_reruns_long(short: dict[str, Any], tmp_path: Path) -> None:
    root = lf.run(short, tmp_path / "out").path
    (result,) = read_comparison(root).trained
    store = Store(root)
    lengths = [store.run(run).spec().training.max_epochs for run in result.trials[0].runs]
    reruns = [store.run(run).spec().training.max_epochs for run in result.repeats[0].reruns[0].runs]
    assert (lengths, reruns) == ([1, 1], [3, 3])
    assert verify(root) == []
    again = plan(Experiment.build(**short), root)
    assert again.runs_todo == 0


@pytest.mark.slow
def test_another_length_of_the_confirmation_is_trained_again(short: dict[str, Any], tmp_path: Path) -> None:
    """The selection is the same, the reruns are not."""
    root = lf.run(short, tmp_path / "out").path
    short["training"]["max_epochs"] = 2
    lf.run(short, root)
    (result,) = read_comparison(root).trained
    runs = result.repeats[0].reruns[0].runs
    assert [Store(root).run(run).spec().training.max_epochs for run in runs] == [2, 2]
    assert len(Store(root).runs()) == 2 + 2 + 2  # the trials were not trained again


def test_a_search_as_long_as_the_confirmation_has_the_usual_identity(short: dict[str, Any]) -> None:
    found = []
    for length in (None, 3, 99, 1):
        short["search"]["max_epochs"] = length
        resolved = resolve_experiment(Experiment.build(**short))
        found.append(search_record(resolved, resolved.methods[0]).search_id)
    assert found[0] == found[1] == found[2] != found[3]


@pytest.mark.parametrize(
    ("method", "points"),
    [("multi_similarity_miner", 302_500), ("soft_triple", 665_500), ("proxy_anchor", 550)],
)
def test_the_thesis_grid_is_searched_and_nothing_else(method: str, points: int) -> None:
    from levelfield.analysis import published

    experiment = Experiment.build(name="x", preset="deep-dive-fixed")
    found = _method(experiment, experiment.method(method))
    printed = {row.parameter for row in published.ranges(source="deep-dive-fixed", method=method)}
    assert found.space.keys() == printed
    assert grid_size(found.space) == points
    best = published.optimum(method, "cub200", source="deep-dive-fixed")
    found.check_hyperparameters({name: best[name] for name in found.space})
    assert (experiment.search.max_epochs, experiment.training.max_epochs) == (10, 100)


def listed(first: dict[str, Any] | None) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    while True:
        number = len(points)
        point = first if number == 0 and first else None
        point = point or suggest(SPACE, [], sampler="grid", seed=0, number=number, first=first)
        if point is None:
            return points
        points.append(point)


@pytest.mark.parametrize(
    ("first", "count"),
    [
        (None, 12),
        ({"margin": 0.5, "kind": "b", "count": 2}, 12),
        ({"margin": 0.3, "kind": "a", "count": 1}, 13),
    ],
)
def test_an_exhaustive_grid_tries_every_point_once(first: dict[str, Any] | None, count: int) -> None:
    points = listed(first)
    assert len({tuple(point.items()) for point in points}) == len(points) == count
    assert grid_trials(SPACE, first) == count
    assert first is None or points[0] == first
