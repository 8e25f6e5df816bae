from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from levelfield.config import Experiment, preset_names, read_preset
from levelfield.core.errors import UsageError


def test_values_override_the_preset_and_overrides_override_both(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("preset: demo\nsearch: {trials: 7}\n")
    experiment = Experiment.load(file, ("search.trials=9", "head.size=16"))
    assert experiment.name == "mine"
    assert (experiment.search.trials, experiment.head.size) == (9, 16)
    assert experiment.search.sampler == Experiment.build(name="x", preset="demo").search.sampler


def test_scientific_notation_is_a_number(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("preset: demo\noptimizer: {lr: 1e-6}\nmethods: [{name: triplet, set: {margin: 5e-2}}]\n")
    experiment = Experiment.load(file)
    assert experiment.optimizer.lr == 1e-6
    assert experiment.methods[0].set == {"margin": 0.05}


def test_another_dataset_does_not_inherit_the_options_of_the_presets() -> None:
    experiment = Experiment.build(name="x", preset="demo", dataset={"name": "cub200", "root": "data"})
    assert experiment.dataset.options == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"serch": {}}, r'unknown key "serch"; did you mean "search"\?'),
        ({"search": {"trails": 3}}, r'unknown key "search.trails"; did you mean "trials"\?'),
        ({"search": {"trials": 0}}, r'"search.trials" = 0: input should be greater than'),
        ({"training": {"max_epochs": "many"}}, r'"training.max_epochs" = \'many\''),
        ({"engine": {"loaders": -1}}, r'"engine.loaders" = -1: .* equal to 0, or input should be \'auto\'$'),
        (
            {"trunk": {"freeze_bn": "maybe"}},
            r'"trunk.freeze_bn" = \'maybe\': input .*\'statistics\' or \'all\'$',
        ),
        ({"methods": [{"name": "triplet", "set": {"margin": [1]}}]}, r'"methods.0.set.margin" = \[1\]'),
        ({"methods": []}, "at least 1 item"),
        ({"methods": [{"name": "triplet", "marign": 1}]}, r'unknown key "methods.0.marign"'),
        ({"methods": ["triplet", "triplet"]}, "listed twice"),
        ({"preset": "dmeo"}, r'unknown preset "dmeo"; did you mean "demo"\?'),
        ({"name": "a/b"}, "name"),
    ],
)
def test_a_mistake_gets_one_line_that_names_it(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        Experiment.build(**{"name": "x", "preset": "demo", **values})
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.yaml does not exist"):
        Experiment.load(tmp_path / "none.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1,\nb: 2")
    with pytest.raises(UsageError, match="not valid YAML"):
        Experiment.load(broken)
    listing = tmp_path / "list.yaml"
    listing.write_text("- 1")
    with pytest.raises(UsageError, match="key: value"):
        Experiment.load(listing)


def test_yaml_cannot_run_code(tmp_path: Path) -> None:
    file = tmp_path / "evil.yaml"
    file.write_text("name: !!python/object/apply:os.system ['true']")
    with pytest.raises(UsageError, match="not valid YAML"):
        Experiment.load(file)


def test_the_name_of_a_plug_in_may_stand_alone(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text("preset: demo\ntrunk: conv4\ndataset: cub200\n")
    short = Experiment.load(file)
    assert (short.dataset.name, short.dataset.options) == ("cub200", {})
    assert short.trunk.options == Experiment.build(name="x", preset="demo").trunk.options
    assert Experiment.load(file, ("trunk=timm:resnet18",)).trunk.name == "timm:resnet18"


@pytest.mark.parametrize("override", ["trials", "=3", "search..trials=3"])
def test_an_override_must_have_a_key_and_a_value(override: str) -> None:
    from levelfield.config._load import build

    with pytest.raises(UsageError, match=r"section\.key=value"):
        build({"name": "x", "preset": "demo"}, (override,), origin="test")


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_a_valid_experiment(name: str) -> None:
    values = read_preset(name)
    assert Experiment.build(**{"name": "x", "preset": name}).model_dump()["methods"]
    assert "name" not in values


@pytest.mark.parametrize("name", ["../../x", "a/b", "a\nb", "=cmd()", "", ".", "a" * 101, "<b>", "untrained"])
def test_an_invalid_method_name_is_an_error(name: str) -> None:
    with pytest.raises(UsageError, match="method name"):
        Experiment.build(name="x", preset="demo", methods=[{"name": name, "loss": "triplet"}])


def test_ordinary_method_names_stay_allowed() -> None:
    for name in ("ms+miner", "pml:CircleLoss", "Größe 2 (neu)", "lr=0.1,b"):
        Experiment.build(name="x", preset="demo", methods=[{"name": name, "loss": "triplet"}])
