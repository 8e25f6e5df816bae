"""At its defaults, in the batches of every preset, a method is not another method, and its search matters."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield import losses, methods, miners
from levelfield.config import BatchSpec, Experiment, MethodSpec, preset_names
from levelfield.core.errors import UsageError
from levelfield.core.space import range_values
from levelfield.losses import regularizers
from levelfield.methods import LOSS_LR, Method, check_combination, part_options

pytestmark = pytest.mark.filterwarnings("ignore:magface")
SIZE = 32
MAX_BATCH = 64
# With one positive per anchor both are the cross-entropy of the positive among all others; see SupCon.
SAME_WITH_ONE_POSITIVE = {"ntxent", "supcon"}


def batch_shapes() -> list[tuple[int, int, int]]:
    """Return size and samples per class, also of classification losses, of the batches of all presets."""
    batches = (Experiment.build(name="x", preset=preset).batch for preset in preset_names())
    shapes = {(b.samples_per_class, b.samples_per_class_classification): b.size for b in batches}
    return sorted((min(size, MAX_BATCH), *counts) for counts, size in shapes.items())


SHAPES = batch_shapes()
# It differs from r_margin by its published values only; tests/losses/test_thesis_losses.py compares these.
NAMES = [name for name in methods.method_names() if name != "r_margin_second"]
METHODS = [methods.resolve_method(MethodSpec(name=name)) for name in NAMES]
METHODS = [method for method in METHODS if not method.loss.startswith("pml:")]


@cache
def batches(size: int, samples_per_class: int, *, unit: bool) -> list[tuple[Tensor, Tensor]]:
    """Return scattered, clustered and collapsed embeddings, N x 32, with their labels."""
    found = []
    for spread in (3.0, 0.7, 0.1):
        generator = torch.Generator().manual_seed(1)
        labels = torch.arange(size // samples_per_class).repeat_interleave(samples_per_class)
        centers = torch.randn(len(labels), SIZE, generator=generator, dtype=torch.float64)
        noise = torch.randn(len(labels), SIZE, generator=generator, dtype=torch.float64)
        vectors = centers[labels] + spread * noise
        found.append((torch.nn.functional.normalize(vectors) if unit else vectors, labels))
    return found


def gradients(method: Method, values: Mapping[str, Any], batch: BatchSpec) -> list[Tensor]:
    """Return the gradients of the embeddings and of the loss's parameters, on all three batches."""
    samples = method.resolve_samples_per_class(batch)
    found: list[Tensor] = []
    for vectors, labels in batches(batch.size, samples, unit=method.card.embedding == "unit"):
        options: dict[str, Any] = dict(part_options(values, "loss"))
        given = {"num_classes": int(labels.max()) + 1, "embedding_size": SIZE, "seed": 0}
        known = losses.registry[method.loss].parameters
        loss = losses.create(method.loss, **options, **{k: v for k, v in given.items() if k in known})
        loss = loss.double()
        leaf = vectors.clone().requires_grad_()
        tuples = []
        if method.miner is not None:
            miner = miners.create(method.miner, **part_options(values, "miner"))
            miners.reseed(miner, 0)
            tuples = [miner(leaf.detach(), labels)]
        wanted = [leaf, *loss.parameters()]
        slopes = torch.autograd.grad(loss(leaf, labels, *tuples), wanted, allow_unused=True)
        found += [torch.zeros(1) if slope is None else slope for slope in slopes]
    return found


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.allclose(a, b, rtol=1e-9, atol=1e-12)
        for a, b in zip(one, other, strict=True)
    )


def batch_of(shape: tuple[int, int, int]) -> BatchSpec:
    return BatchSpec(size=shape[0], samples_per_class=shape[1], samples_per_class_classification=shape[2])


def usable(method: Method, batch: BatchSpec) -> bool:
    try:
        check_combination(method, samples_per_class=method.resolve_samples_per_class(batch))
    except UsageError:
        return False
    return True


@pytest.mark.parametrize("shape", SHAPES)
def test_no_method_is_another_one(shape: tuple[int, int, int]) -> None:
    batch = batch_of(shape)
    found = {
        method.name: gradients(method, {**method.defaults(), **method.fixed}, batch)
        for method in METHODS
        if usable(method, batch)
    }
    assert len(found) > 40
    pairs = itertools.combinations(found, 2)
    same = {frozenset((one, other)) for one, other in pairs if equal(found[one], found[other])}
    expected = {frozenset(SAME_WITH_ONE_POSITIVE)} if batch.samples_per_class == 2 else set()
    assert same == expected
    still = [name for name, slopes in found.items() if not any(slope.any() for slope in slopes)]
    assert not still, "these learn nothing from any batch"


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_every_searched_hyperparameter_matters(shape: tuple[int, int, int]) -> None:
    batch, idle = batch_of(shape), []
    for method in (method for method in METHODS if usable(method, batch)):
        base = {**method.defaults(), **method.fixed}
        for name, dimension in method.space.items():
            if name == LOSS_LR:
                continue  # it acts after the gradient
            tried = [gradients(method, base | {name: value}, batch) for value in range_values(dimension)]
            if all(equal(tried[0], other) for other in tried[1:]):
                idle.append((method.name, name))
    assert not idle


@pytest.mark.parametrize("samples", [1, 2])
def test_group_with_anchors_only_is_refused(samples: int) -> None:
    method = methods.resolve_method(MethodSpec(name="group", samples_per_class=samples))
    with pytest.raises(UsageError, match="would be cross_entropy; set samples_per_class of the method to 3"):
        check_combination(method, samples_per_class=samples)
    batch = BatchSpec(samples_per_class=4, samples_per_class_classification=1)
    assert methods.resolve_method(MethodSpec(name="group")).resolve_samples_per_class(batch) == 4


@pytest.mark.parametrize(
    ("spec", "samples", "reason"),
    [
        ({"name": "triplet", "set": {"regularizer.l2": 0.1}}, 4, "regularizer l2 is constant"),
        ({"name": "arcface", "set": {"regularizer.threshold_consistent_margin": 1.0}}, 1, "hold 1 sample"),
    ],
)
def test_a_regularizer_without_effect_is_refused(spec: dict[str, Any], samples: int, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check_combination(methods.resolve_method(MethodSpec(**spec)), samples_per_class=samples)


def test_l2_is_for_embeddings_with_a_length() -> None:
    method = methods.resolve_method(MethodSpec(name="npair", set={"regularizer.l2": 0.1}))
    check_combination(method, samples_per_class=4)
    unit = methods.resolve_method(MethodSpec(name="triplet", set={"regularizer.l2": 0.1}))
    check_combination(unit, samples_per_class=4, unit_embeddings=False)


@pytest.mark.parametrize("name", regularizers.registry.names())
@pytest.mark.parametrize("samples", [2, 4])
def test_every_regularizer_moves_the_embeddings(name: str, samples: int) -> None:
    given = {"num_classes": MAX_BATCH // samples, "embedding_size": SIZE, "seed": 0, "ancestors": 16}
    entry = regularizers.registry[name]
    term = regularizers.create(name, **{k: v for k, v in given.items() if k in entry.parameters}).double()
    moved = False
    for vectors, labels in batches(MAX_BATCH, samples, unit=name != "l2"):
        leaf = vectors.clone().requires_grad_()
        proxies = torch.randn(int(labels.max()) + 1, SIZE, dtype=torch.float64).requires_grad_()
        known = {"labels": labels, "proxies": proxies}
        value = term(leaf, **{key: known[key] for key in entry.card.sees})
        slopes = torch.autograd.grad(value, [leaf, proxies], allow_unused=True)
        moved |= any(slope is not None and bool(slope.any()) for slope in slopes)
    assert moved


def test_magface_tells_that_its_lengths_are_not_reached() -> None:
    loss = losses.create("magface", num_classes=2, embedding_size=4)
    with pytest.warns(UserWarning, match="below low_length 10"):
        loss(torch.eye(4)[:2], torch.tensor([0, 1]))
    far = losses.create("magface", num_classes=2, embedding_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        far(20 * torch.eye(4)[:2], torch.tensor([0, 1]))
