"""The reality check's search ranges: complete, around its optima, and what `mlrc` searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from levelfield import methods
from levelfield.analysis import published
from levelfield.config import Experiment, MethodSpec
from levelfield.core.space import Float, Int, describe_range
from levelfield.protocol.spec._resolve import _method

METHODS = sorted({row.method for row in published.optima(source="reality-check")})
SETTINGS = [("cub200", 32), ("cars196", 32), ("sop", 32), ("cub200", 256)]


def resolved(preset: str, method: str | MethodSpec | dict[str, Any], dataset: str = "cub200", **values):
    experiment = Experiment.build(
        name="x", preset=preset, dataset={"name": dataset}, methods=[method], **values
    )
    return _method(experiment, experiment.methods[0])


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("dataset", "batch"), SETTINGS)
def test_every_published_optimum_lies_in_the_range_that_was_searched(method, dataset, batch):
    space = published.search_space(method, dataset, batch=batch)
    best = published.optimum(method, dataset, batch=batch)
    assert space.keys() == best.keys()
    for name, value in best.items():
        assert space[name].contains(value), (name, value, space[name])


@pytest.mark.parametrize("method", METHODS)
def test_mlrc_searches_what_the_study_searched_and_nothing_else(method):
    found = resolved("mlrc", method)
    assert found.space == published.search_space(method, "cub200", batch=32)


def test_the_ranges_that_differed_most():
    assert resolved("mlrc", "triplet").space == {"margin": Float(-0.2, 2.0)}
    assert resolved("mlrc", "ntxent", "sop").space == {"temperature": Float(1e-5, 100.0, log=True)}
    assert resolved("mlrc", "arcface").space["margin"] == Float(0.0, 90.0)
    assert resolved("mlrc-batch256", "fastap").space == {"num_bins": Int(2, 250)}
    soft_triple = resolved("mlrc", "soft_triple")
    assert "centers" not in soft_triple.space
    assert soft_triple.fixed["centers"] == 10


def test_ours_stay_the_default_elsewhere_and_ones_own_space_lies_over_both():
    assert resolved("laptop", "triplet").space == methods.resolve_method(MethodSpec(name="triplet")).space
    own = {"name": "triplet", "space": {"margin": [0.0, 0.5]}}
    assert resolved("mlrc", own).space == {"margin": Float(0.0, 0.5)}
    more = {"name": "soft_triple", "space": {"centers": [2, 4]}}
    assert resolved("mlrc", more).space["centers"] == Int(2, 4)


def table() -> str:
    """Both ranges side by side, as docs/presets.md prints them."""
    lines = ["| method | hyperparameter | the study's (CUB, batch 32) | ours |", "|---|---|---|---|"]
    for method in METHODS:
        ours = methods.resolve_method(MethodSpec(name=method)).space
        theirs = published.search_space(method, "cub200", batch=32)
        for name in {**theirs, **ours}:
            one = describe_range(theirs[name]) if name in theirs else "not searched"
            lines.append(f"| {method} | {name} | {one} | {describe_range(ours[name])} |")
    return "\n".join(lines)


def test_the_docs_print_both_side_by_side():
    text = (Path(__file__).parents[3] / "docs" / "presets.md").read_text()
    assert table() in text, f"put this into docs/presets.md:\n{table()}"
