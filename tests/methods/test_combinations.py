"""Every valid combination of sampler, miner and loss trains on Glyphs; others are errors with a reason."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.built_in import built_in_names

import levelfield as lf
from levelfield import losses, methods, miners, models, samplers
from levelfield.config import MethodSpec
from levelfield.core.errors import UsageError
from levelfield.losses import regularizers
from levelfield.methods import Method, check_combination
from levelfield.protocol import resolve_experiment
from levelfield.samplers._bank_samplers import BankSampler
from levelfield.samplers.memory_bank import MemoryBank
from levelfield.train._objective import Objective

BATCH, M, CLASSES, STEPS = 32, 4, 24, 2


@cache
def glyph_features() -> tuple[torch.Tensor, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return pooled features of the first classes of Glyphs, so that training steps are fast."""
    dataset = lf.data.load("glyphs")
    rows = np.flatnonzero(dataset.labels < CLASSES)
    images = torch.stack([dataset.images.read(int(row)) for row in rows])
    embedder = models.create_embedder(
        trunk=models.create_trunk("conv4", width=8, in_channels=1), head="none"
    ).eval()
    with torch.inference_mode():
        return embedder.features(images).clone(), dataset.labels[rows]


@cache
def resolved() -> Any:
    return resolve_experiment(lf.Experiment.build(name="x", preset="demo", trunk={"mode": "frozen"}))


@cache
def head_only() -> models.Embedder:
    return models.create_embedder(trunk=models.create_trunk("conv4", width=8, in_channels=1), size=16)


def train(method: Method) -> None:
    """Train two steps and check that loss and gradients are finite."""
    features, labels = glyph_features()
    spec = resolved().run_spec(method, {**method.defaults(), **method.fixed}, fold=0, seed=0)
    objective = Objective(spec, num_classes=CLASSES, embedding_size=16)
    options = (
        {"samples_per_class": M}
        if "samples_per_class" in samplers.registry[method.sampler].parameters
        else {}
    )
    sampler = samplers.create(method.sampler, labels, batch_size=BATCH, seed=0, **options)
    bank = MemoryBank(len(labels), 16)
    if isinstance(sampler, BankSampler):
        sampler.attach(bank)
    embedder = head_only()
    objective.start_epoch(1)
    for rows in sampler.epoch(1, STEPS):
        value, embeddings = objective(embedder, features[rows], torch.from_numpy(labels[rows]))
        value.backward()
        bank.update(rows, embeddings.detach())
        assert torch.isfinite(value), method
    gradients = [p.grad for p in (*embedder.head.parameters(), *objective.parameters()) if p.grad is not None]
    assert gradients and all(torch.isfinite(gradient).all() for gradient in gradients), method
    embedder.zero_grad(set_to_none=True)


@pytest.mark.slow
@pytest.mark.parametrize("loss", losses.registry.names())
def test_every_valid_combination_trains(loss: str) -> None:
    trained = 0
    for miner, sampler in product(
        [None, *built_in_names(miners.registry)], built_in_names(samplers.registry)
    ):
        method = Method(name="combination", loss=loss, miner=miner, sampler=sampler)
        try:
            check_combination(method, samples_per_class=M)
        except UsageError:
            continue
        train(method)
        trained += 1
    assert trained >= len(built_in_names(samplers.registry))


@pytest.mark.parametrize("name", methods.registry.names())
def test_every_built_in_method_trains(name: str) -> None:
    train(methods.resolve_method(MethodSpec(name=name)))


@pytest.mark.parametrize("regularizer", regularizers.registry.names())
@pytest.mark.parametrize("loss", ["multi_similarity", "proxy_anchor", "soft_triple"])
def test_every_regularizer_trains_with_every_loss_that_has_what_it_sees(loss: str, regularizer: str) -> None:
    small = {"regularizer.hier.ancestors": 8} if regularizer == "hier" else {}
    method = Method(name="regularized", loss=loss, fixed={f"regularizer.{regularizer}": 0.5, **small})
    if "proxies" in regularizers.registry[regularizer].card.sees and not losses.has_proxies(loss):
        with pytest.raises(UsageError, match="needs one proxy per class"):
            check_combination(method, samples_per_class=M)
        return
    check_combination(method, samples_per_class=M, unit_embeddings=regularizer != "l2")
    train(method)


@pytest.mark.parametrize(
    ("spec", "samples_per_class", "reason"),
    [
        ({"name": "x", "loss": "arcface", "miner": "hard"}, 1, "takes no tuples"),
        ({"name": "triplet"}, 1, "set samples_per_class to 2 or more"),
        ({"name": "x", "loss": "multi_similarity", "miner": "rho_switch"}, 4, "rho_switch works with"),
        ({"name": "x", "loss": "arcface", "set": {"memory.capacity": 64}}, 1, "needs a loss of pairs"),
        (
            {"name": "x", "loss": "contrastive", "sampler": "gc", "set": {"mixup.alpha": 2.0}},
            4,
            "cannot be combined with a cross-batch memory",
        ),
        (
            {"name": "x", "loss": "contrastive", "set": {"regularizer.koleo.eps": 1e-6}},
            4,
            "set regularizer.koleo too",
        ),
        (
            {
                "name": "x",
                "loss": "contrastive",
                "set": {"regularizer.threshold_consistent_margin": 1.0, "mixup.alpha": 2.0},
            },
            4,
            "mixup gives each sample two",
        ),
        (
            {"name": "x", "loss": "cross_entropy", "set": {"synthesis.memvir": 2}},
            1,
            "cannot take additional classes",
        ),
        (
            {
                "name": "x",
                "loss": "arcface",
                "set": {"synthesis.memvir": 2, "synthesis.proxy_synthesis": 0.5},
            },
            1,
            "a method can have one synthesis",
        ),
        ({"name": "x", "loss": "triplet", "set": {"s2sd.width": 8}}, 4, "set s2sd.weight too"),
        ({"name": "x", "loss": "npair", "set": {"s2sd.weight": 8}}, 4, "defined on raw ones"),
        (
            {"name": "x", "loss": "triplet", "set": {"s2sd.weight": 8, "mixup.alpha": 1}},
            4,
            "combined with mixup",
        ),
        ({"name": "x", "loss": "ntxent", "set": {"synthesis.metrix": 0.4}}, 4, "works with contrastive"),
        ({"name": "x", "loss": "arcface", "set": {"synthesis.memvir.gap": 2}}, 1, "set synthesis.memvir too"),
    ],
)
def test_invalid_combinations_raise_an_error_with_a_reason(
    spec: dict[str, Any], samples_per_class: int, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        check_combination(methods.resolve_method(MethodSpec(**spec)), samples_per_class=samples_per_class)
