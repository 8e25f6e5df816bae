"""Every preset is complete: everything that it names exists, for each of its datasets."""

from __future__ import annotations

from typing import Any

import pytest

from levelfield import data, losses, methods, metrics, miners, models, samplers
from levelfield.config import Experiment, preset_names, preset_text
from levelfield.config._load import build
from levelfield.core.errors import UsageError
from levelfield.core.space import Float
from levelfield.data import splits, transforms
from levelfield.methods import check_combination
from levelfield.protocol.spec._resolve import _method

MLRC_METHODS = [
    "contrastive",
    "triplet",
    "ntxent",
    "proxy_nca",
    "margin",
    "margin_class",
    "normalized_softmax",
    "cosface",
    "arcface",
    "fastap",
    "snr_contrastive",
    "multi_similarity",
    "multi_similarity_miner",
    "soft_triple",
]


def load(preset: str, **values: Any) -> Experiment:
    return Experiment.build(name="x", preset=preset, **values)


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("dataset", ["cub200", "cars196", "sop"])
def test_everything_a_preset_names_exists(preset: str, dataset: str) -> None:
    own = {} if preset in ("demo", "landmarks") else {"dataset": {"name": dataset}}
    experiment = load(preset, **own)
    data.registry[experiment.dataset.name]
    splits.registry.check_options(splits.registry[experiment.split.name], experiment.split.options)
    models.registry.check_options(models.registry[experiment.trunk.name], experiment.trunk.options)
    transforms.registry[experiment.transform.name]
    for metric in (*experiment.metrics, experiment.training.metric):
        metrics.resolve_metric(metric)
    for spec in experiment.methods:
        method = methods.resolve_method(spec)
        losses.registry[method.loss]
        samplers.registry[method.sampler]
        if method.miner is not None:
            miners.registry[method.miner]
        check_combination(method, samples_per_class=method.resolve_samples_per_class(experiment.batch))
        assert method.defaults(dataset).keys() == method.space.keys()
        if experiment.hyperparameters.startswith("published"):
            assert not _method(experiment, spec).space


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_says_where_its_values_come_from(preset: str) -> None:
    assert "#" in preset_text(preset)


@pytest.mark.parametrize("preset", ["mlrc", "laptop"])
def test_the_14_methods_of_the_reality_check(preset: str) -> None:
    assert [method.name for method in load(preset).methods] == MLRC_METHODS


def test_mlrc_is_the_reality_checks_protocol() -> None:
    experiment = load("mlrc", dataset={"name": "cub200"})
    assert (experiment.trunk.name, experiment.head.size, experiment.trunk.bn_mode) == (
        "bninception",
        128,
        "statistics",
    )
    optimizer = experiment.optimizer
    assert (optimizer.name, optimizer.lr, optimizer.momentum, optimizer.weight_decay) == (
        "rmsprop",
        1e-6,
        0.9,
        1e-4,
    )
    assert (experiment.batch.size, experiment.search.trials, experiment.confirm.reruns) == (32, 50, 10)
    assert load("mlrc-batch256").batch.size == 256


@pytest.mark.parametrize(
    ("dataset", "evaluate_every", "patience"), [("cub200", 2, 9), ("cars196", 5, 14), ("sop", 20, 39)]
)
def test_patience_depends_on_the_dataset(dataset: str, evaluate_every: int, patience: int) -> None:
    training = load("mlrc", dataset={"name": dataset}).training
    assert (training.evaluate_every, training.patience) == (evaluate_every, patience)


@pytest.mark.parametrize(
    ("dataset", "trunk", "expected"),
    [
        ("cub200", "resnet50", (1e-4, 5, 0.1, 100)),
        ("cub200", "bninception", (1e-4, 10, 0.1, 180)),
        ("cub200", "googlenet", (1e-4, 10, 0.1, 180)),
        ("cars196", "resnet50", (1e-4, 10, 0.1, 100)),
        ("cars196", "bninception", (1e-4, 20, 0.1, 180)),
        ("cars196", "googlenet", (1e-4, 20, 0.1, 180)),
        ("sop", "resnet50", (6e-4, 10, 0.25, 100)),
        ("sop", "bninception", (6e-4, 20, 0.25, 180)),
        ("sop", "googlenet", (6e-4, 20, 0.25, 180)),
    ],
)
def test_the_thesis_schedules(dataset: str, trunk: str, expected: tuple[float, int, float, int]) -> None:
    """Learning rate, step size, gamma and batch size."""
    trunk_values = {"name": trunk, "weights": "imagenet"}
    experiment = load("deep-dive", dataset={"name": dataset}, trunk=trunk_values)
    schedule = experiment.schedule
    found = (experiment.optimizer.lr, schedule.step_size, schedule.gamma, experiment.batch.size)
    assert found == expected


@pytest.mark.parametrize(
    ("method", "dataset", "values"),
    [
        ("arcface", "cub200", {"scale": 16.0, "loss_lr": 5e-4}),
        ("soft_triple", "cub200", {"centers": 2, "la": 8.0}),
        ("multi_similarity_miner", "cars196", {"beta": 40.0}),
        ("histogram", "sop", {"num_bins": 11}),
        ("histogram", "cub200", {"num_bins": 65}),
        ("quadruplet", "cub200", {"margin_1": 1.0, "miner.cutoff": 0.5}),
        ("proxy_nca", "cub200", {"softmax_scale": 9.0, "loss_lr": 5e-4}),
        ("r_contrastive", "cub200", {"miner.p_switch": 0.4}),
        ("r_triplet", "cub200", {"miner.p_switch": 0.4}),
        ("r_snr", "cub200", {"miner.p_switch": 0.3}),
        ("r_margin", "sop", {"miner.p_switch": 0.15, "beta": 1.2}),
        ("margin_b06", "cub200", {"beta": 0.6}),
        ("triplet_semihard", "cub200", {"miner.fallback": True}),
    ],
)
def test_revisiting_starts_from_the_values_of_the_paper(
    method: str, dataset: str, values: dict[str, Any]
) -> None:
    experiment = load("revisiting", dataset={"name": dataset})
    fixed = _method(experiment, experiment.method(method)).fixed
    assert {name: fixed[name] for name in values} == values


@pytest.mark.parametrize(
    ("method", "p_switch"), [("r_contrastive", 0.4), ("r_triplet", 0.4), ("r_snr", 0.3), ("r_margin", 0.35)]
)
def test_rho_regularized_methods_recommend_the_probability_of_the_paper(method: str, p_switch: float) -> None:
    spec = Experiment.build(name="x", preset="demo", methods=[method]).methods[0]
    assert methods.resolve_method(spec).defaults("cub200")["miner.p_switch"] == p_switch


def test_user_values_override_the_rules() -> None:
    training = load("mlrc", dataset={"name": "sop"}, training={"patience": 1}).training
    assert (training.evaluate_every, training.patience) == (20, 1)


def test_overrides_choose_the_rules_too() -> None:
    experiment = build({"name": "x", "preset": "mlrc"}, ("dataset.name=cars196",), origin="test")
    assert experiment.training.patience == 14


def test_the_thesis_grid_has_its_steps() -> None:
    experiment = load("deep-dive-fixed")
    space = methods.resolve_method(experiment.method("proxy_anchor")).space
    margin, alpha = space["margin"], space["alpha"]
    assert isinstance(margin, Float) and isinstance(alpha, Float)
    assert (margin.step, alpha.step) == (0.1, 2.0)


def test_an_experiment_has_no_rules_of_its_own() -> None:
    with pytest.raises(UsageError, match='unknown key "when"'):
        load("mlrc", when=[])
