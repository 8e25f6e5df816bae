"""docs/from-pml.md names every class of pytorch-metric-learning, and both libraries work together."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import levelfield as lf
from levelfield.core.registry import Registry

pytest.importorskip("pytorch_metric_learning")
from pytorch_metric_learning import losses, miners, trainers

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "from-pml.md").read_text(encoding="utf-8")
MODULES = ("losses", "miners", "samplers", "distances", "reducers", "regularizers", "trainers", "testers")


@pytest.mark.parametrize("module", MODULES)
def test_every_class_is_named(module: str) -> None:
    source = importlib.import_module(f"pytorch_metric_learning.{module}")
    classes = [name for name, found in vars(source).items() if inspect.isclass(found)]
    missing = [name for name in classes if f"`{name}`" not in PAGE and f"pml:{name}" not in PAGE]
    assert not missing


def test_what_it_maps_to_exists() -> None:
    section = PAGE[PAGE.index("## Losses\n") : PAGE.index("## Miners")]
    for row in re.findall(r"^\| (?:`\w+`.*?) \| (.*) \|$", section, re.MULTILINE):
        for name in re.findall(r"`([a-z_0-9]+)`", row):
            known = (lf.losses, lf.losses.regularizers, lf.miners, lf.samplers)
            assert name in ("set",) or any(name in room.registry for room in known), name
        for name in re.findall(r"`pml:(\w+)`", row):
            assert name == "NAME" or f"pml:{name}" in lf.losses.registry


def test_the_measured_table_is_what_its_script_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module("from_pml")
        assert "\n".join(module.table()) in PAGE
    sys.modules.pop("from_pml")


def data() -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(12).repeat_interleave(8)
    centers = torch.randn(12, 16, generator=generator)
    return torch.utils.data.TensorDataset(
        centers[labels] + 1.5 * torch.randn(96, 16, generator=generator), labels
    )


@pytest.mark.parametrize("loss", ["triplet", "multi_similarity", "fastap", "proxy_anchor"])
@pytest.mark.parametrize("miner", ["none", "theirs", "ours"])
def test_our_losses_train_in_their_trainer(loss: str, miner: str) -> None:
    card = lf.losses.registry[loss].card
    if miner != "none" and card.tuples is None:
        pytest.skip("this loss takes no miner")
    torch.manual_seed(0)
    shape = {"num_classes": 12, "embedding_size": 8} if card.kind == "classification" else {}
    made = lf.losses.create(loss, **shape)
    trunk, dataset = torch.nn.Linear(16, 8), data()
    inputs, labels = dataset.tensors

    def score() -> float:
        return lf.metrics.evaluate(trunk(inputs).detach(), labels, metrics=("map_at_r",))["map_at_r"]

    before = score()
    optimizers = {"trunk_optimizer": torch.optim.Adam(trunk.parameters(), lr=1e-2)}
    if shape:
        optimizers["metric_loss_optimizer"] = torch.optim.Adam(made.parameters(), lr=1e-1)
    choices = {"theirs": miners.MultiSimilarityMiner(), "ours": lf.miners.create("all")}
    trainer = trainers.MetricLossOnly(
        models={"trunk": trunk},
        optimizers=optimizers,
        batch_size=48,
        loss_funcs={"metric_loss": made},
        dataset=dataset,
        mining_funcs={} if miner == "none" else {"tuple_miner": choices[miner]},
        dataloader_num_workers=0,
        data_device="cpu",
    )
    trainer.train(num_epochs=6)
    assert score() > before


def test_their_tuples_are_ours() -> None:
    """A tuple of index tensors, as PML's miners return it, works like our own object."""
    x, labels = (tensor[:24] for tensor in data().tensors)
    chosen = miners.TripletMarginMiner(margin=0.3)(x, labels)
    ours = lf.losses.create("triplet", margin=0.3)
    theirs = losses.TripletMarginLoss(margin=0.3)
    torch.testing.assert_close(ours(x, labels, chosen), theirs(x, labels, chosen))


BASES = {"BaseMetricLossFunction", "BaseLossWrapper", "GenericPairLoss", "EmbeddingRegularizerMixin"}
BASES |= {"WeightRegularizerMixin", "BaseMiner", "BaseSampler"}
OWN = {
    "CrossBatchMemory": lf.samplers.CrossBatchMemory,
    "MultipleLosses": lf.losses.WeightedSum,
    "SelfSupervisedLoss": lf.losses.SelfSupervised,
    "EmbeddingsAlreadyPackagedAsTriplets": lf.samplers.GivenTriplets,
    "MPerClassSampler": lf.samplers.MPerClass,
    "HierarchicalSampler": lf.samplers.Hierarchical,
    "FixedSetOfTriplets": lf.samplers.GivenTriplets,
    "TuplesToWeightsSampler": lf.samplers.Weighted,
}


@pytest.mark.parametrize("module", ["losses", "miners", "samplers"])
def test_every_class_works_here(module: str) -> None:
    """A class is in the bridge, or one of ours does what it does; only base classes have no counterpart."""
    source = importlib.import_module(f"pytorch_metric_learning.{module}")
    registries: dict[str, Registry[Any, Any]] = {"losses": lf.losses.registry, "miners": lf.miners.registry}
    for name in sorted(name for name, found in vars(source).items() if inspect.isclass(found)):
        if name in BASES:
            continue
        if name in OWN:
            assert f"`{OWN[name].__name__}`" in PAGE, name
            continue
        assert registries[module][f"pml:{name}"].card.name == f"pml:{name}"
