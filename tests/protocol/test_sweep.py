"""The experiments of a sweep, one factor at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.core.errors import UsageError
from levelfield.protocol import Factor, parse_factor, sweep_points
from levelfield.protocol._sweep import with_value


@pytest.fixture
def experiment(tiny: dict[str, Any]) -> lf.Experiment:
    return lf.Experiment.build(**tiny)


def test_only_the_factor_varies(experiment: lf.Experiment, tmp_path: Path) -> None:
    points = sweep_points(
        experiment, [parse_factor("batch.size=6,12"), parse_factor("head.size=8,16")], tmp_path
    )
    assert [(point.factor, point.value) for point in points] == [
        ("batch.size", 6),
        ("batch.size", 12),
        ("head.size", 8),
        ("head.size", 16),
    ]
    for point in points:
        assert (
            with_value(point.experiment, "batch.size", 12).model_copy(update={"head": experiment.head})
            == experiment
        )
    # 12 and 8 are the experiment's own values: computed once
    assert [point.directory.name for point in points] == [
        "batch.size=6",
        "batch.size=12",
        "batch.size=12",
        "head.size=16",
    ]


def test_parts_and_hyperparameters_of_every_method(experiment: lf.Experiment) -> None:
    sampled = with_value(experiment, "methods.sampler", "spc")
    assert [method.sampler for method in sampled.methods] == ["spc"] * 3
    switched = with_value(experiment, "methods.set.miner.p_switch", 0.1)
    assert [method.set for method in switched.methods] == [{"miner.p_switch": 0.1}] * 3
    with pytest.raises(UsageError, match=r"methods\.set\.NAME"):
        with_value(experiment, "methods.name", "x")


def test_a_section_that_names_another_plugin_replaces_the_old_one(experiment: lf.Experiment) -> None:
    varied = with_value(experiment, "trunk", {"name": "mlp"})
    assert varied.trunk.name == "mlp" and "width" not in varied.trunk.options


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch.size", "must look like"),
        ("batch.size=32", "at least two"),
        ("batch.size=32,32", "twice"),
        ("batch..size=1,2", "must look like"),
    ],
)
def test_wrong_factors(text: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        parse_factor(text)


def test_wrong_paths_and_values(experiment: lf.Experiment, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'"batch\.sise"; did you mean "size"'):
        sweep_points(experiment, [Factor("batch.sise", (1, 2))], tmp_path)
    with pytest.raises(UsageError, match=r"batch\.size"):
        sweep_points(experiment, [Factor("batch.size", (1, "many"))], tmp_path)


def test_values_with_slashes_make_no_directories(experiment: lf.Experiment, tmp_path: Path) -> None:
    points = sweep_points(experiment, [Factor("trunk.weights", ("none", "some/where.pt"))], tmp_path)
    assert points[1].directory.parent == tmp_path
