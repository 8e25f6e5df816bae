from __future__ import annotations

import pytest
from tests.helpers.built_in import built_in_methods

from levelfield import losses, methods
from levelfield.config import BatchSpec, MethodSpec
from levelfield.core.errors import UsageError
from levelfield.core.space import Choice, Float, Int
from levelfield.methods import part_options


def test_a_loss_is_a_method_by_itself() -> None:
    method = methods.resolve_method(MethodSpec(name="contrastive"))
    assert (method.loss, method.miner) == ("contrastive", None)
    assert method.space == losses.registry["contrastive"].card.space


def test_loss_parameters_add_a_learning_rate_to_the_search() -> None:
    assert "loss_lr" in methods.resolve_method(MethodSpec(name="arcface")).space
    assert "loss_lr" not in methods.resolve_method(MethodSpec(name="triplet")).space


def test_fixed_hyperparameters_are_not_searched() -> None:
    method = methods.resolve_method(MethodSpec(name="contrastive", set={"pos_margin": 0.0}))
    assert list(method.space) == ["neg_margin"]
    assert method.fixed == {"pos_margin": 0.0}


def test_custom_ranges() -> None:
    spec = MethodSpec(name="x", loss="fastap", space={"num_bins": [4, 20]})
    assert methods.resolve_method(spec).space["num_bins"] == Int(4, 20)
    spec = MethodSpec(name="ntxent", space={"temperature": [1e-3, 1.0, "log"]})
    assert methods.resolve_method(spec).space["temperature"] == Float(1e-3, 1.0, log=True)
    spec = MethodSpec(
        name="x", loss="triplet", miner="triplet_margin", space={"miner.kind": ["hard", "easy"]}
    )
    assert methods.resolve_method(spec).space["miner.kind"] == Choice("hard", "easy")


def test_a_value_outside_its_range_is_an_error_unless_the_range_is_widened() -> None:
    with pytest.raises(UsageError, match="outside its range"):
        methods.resolve_method(MethodSpec(name="triplet", set={"margin": 7.0}))
    widened = MethodSpec(name="triplet", set={"margin": 7.0}, space={"margin": [0.0, 10.0]})
    assert methods.resolve_method(widened).fixed["margin"] == 7.0


def test_classification_losses_have_their_own_samples_per_class() -> None:
    batch = BatchSpec(size=32, samples_per_class=4, samples_per_class_classification=1)
    assert methods.resolve_method(MethodSpec(name="triplet")).resolve_samples_per_class(batch) == 4
    assert methods.resolve_method(MethodSpec(name="arcface")).resolve_samples_per_class(batch) == 1
    assert (
        methods.resolve_method(MethodSpec(name="arcface", samples_per_class=2)).resolve_samples_per_class(
            batch
        )
        == 2
    )


def test_recommended_values_may_depend_on_the_dataset() -> None:
    method = methods.resolve_method(MethodSpec(name="r_margin"))
    assert method.defaults("sop")["miner.p_switch"] == 0.15
    assert method.defaults("cars196")["miner.p_switch"] == 0.35


def test_every_methods_defaults_lie_in_its_space() -> None:
    for name in built_in_methods():
        method = methods.resolve_method(MethodSpec(name=name))
        method.check_hyperparameters(method.defaults())
        assert method.defaults().keys() == method.space.keys(), name


def test_flat_names_lead_to_their_parts() -> None:
    flat = {"margin": 0.1, "miner.epsilon": 0.2, "loss_lr": 0.3, "sampler.x": 4, "mixup.alpha": 2.0}
    assert part_options(flat, "loss") == {"margin": 0.1}
    assert part_options(flat, "miner") == {"epsilon": 0.2}
    assert part_options(flat, "mixup") == {"alpha": 2.0}
