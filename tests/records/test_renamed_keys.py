"""Renamed keys: the old ones are accepted with a warning, and no recorded name changes."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.config import Experiment, with_recorded_keys
from levelfield.core.deprecation import LevelfieldDeprecationWarning
from levelfield.core.errors import UsageError
from levelfield.protocol import resolve_experiment, search_id
from levelfield.protocol.search._search import search_record
from levelfield.records import RunSpec, Search, Trial
from levelfield.records._archive_files import open_record_files

RESULTS = Path(__file__).parents[2] / "results"
OLD, NEW = "regulariser.koleo", "regularizer.koleo"  # old spelling


def with_term(values: dict[str, Any], key: str) -> Experiment:
    return Experiment.build(**(values | {"methods": [{"name": "triplet", "set": {key: 0.1}}]}))


def test_the_old_key_is_accepted_with_one_line(tiny: dict[str, Any]) -> None:
    with pytest.warns(LevelfieldDeprecationWarning, match=f"{OLD} is now called {NEW}"):
        old = with_term(tiny, OLD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = with_term(tiny, NEW)
    assert old == new


def test_the_new_key_keeps_the_name_of_the_search(tiny: dict[str, Any]) -> None:
    resolved = resolve_experiment(with_term(tiny, NEW))
    record = json.loads(search_record(resolved, resolved.methods[0]).model_dump_json())
    assert Search.model_validate(record).search_id == search_id(resolved, resolved.methods[0])
    assert NEW in json.dumps(record)
    old = json.loads(json.dumps(record).replace(NEW, OLD))
    assert Search.model_validate(old).search_id == search_id(resolved, resolved.methods[0])


@pytest.mark.slow
def test_every_recorded_name_in_results_is_the_digest_of_its_spec() -> None:
    archives = [open_record_files(file.parent) for file in RESULTS.glob("*/archive.json")]
    runs = {name: found.read_json(name) for found in archives for name in found.names("specs")}
    searches = {name: found.read_json(name) for found in archives for name in found.names("searches")}
    assert len(runs) > 2000 and len(searches) > 100
    assert any("regulariser." in json.dumps(record) for record in runs.values())  # old spelling
    for name, record in runs.items():
        assert RunSpec.model_validate(record).run_id == name.split("/")[1]
    for name, record in searches.items():
        assert Search.model_validate(record).search_id == name.split("/")[1]


def test_old_records_are_read_with_the_new_key() -> None:
    trial = Trial.model_validate({"number": 0, "hyperparameters": {OLD: 0.1}})
    assert trial.hyperparameters == {NEW: 0.1}


def test_old_and_new_key_together_are_an_error(tiny: dict[str, Any]) -> None:
    methods = [{"name": "triplet", "set": {OLD: 0.1, NEW: 0.9}}]
    with (
        pytest.warns(LevelfieldDeprecationWarning),
        pytest.raises(UsageError, match=f"{NEW} is given twice"),
    ):
        Experiment.build(**(tiny | {"methods": methods}))
    old, new = "neighbourhood", "neighborhood"  # old spelling
    with pytest.raises(UsageError, match="give one of them"):
        lf.samplers.create("htl", [0, 0, 1, 1], batch_size=4, seed=0, **{old: 1, new: 2})


def test_an_option_of_a_plugin_is_not_renamed(tiny: dict[str, Any]) -> None:
    """Only the built-in sampler htl had the old name; a plug-in's own option keeps its spelling."""
    key = "sampler.neighbourhood"  # old spelling
    for sampler, expected in (("mine", key), ("htl", "sampler.neighborhood")):
        with warnings.catch_warnings():
            warnings.simplefilter("error" if sampler == "mine" else "ignore")
            methods = [{"name": "a", "loss": "triplet", "sampler": sampler, "set": {key: 3}}]
            built = Experiment.build(**(tiny | {"methods": methods}))
        assert list(built.methods[0].set) == [expected]
    recipe: dict[str, Any] = {"sampler": "htl", "sources": {}}
    spec = {"recipe": recipe, "hyperparameters": {"sampler.neighborhood": 3}}
    assert with_recorded_keys(spec)["hyperparameters"] == {key: 3}
    recipe["sources"] = {"sampler": "abc"}
    assert with_recorded_keys(spec)["hyperparameters"] == {"sampler.neighborhood": 3}


def test_old_module_names_still_work() -> None:
    vars(lf).pop("batches", None)
    with pytest.warns(LevelfieldDeprecationWarning, match="batches is now called samplers") as caught:
        from levelfield import batches
    assert batches is lf.samplers and len(caught) == 1
