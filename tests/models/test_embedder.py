"""The embedder does what its options say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield import models
from levelfield.core.errors import UsageError


def small(seed: int = 0, **options: Any) -> models.Embedder:
    trunk = models.create_trunk("conv4", in_channels=1, width=4, seed=seed)
    return models.create_embedder(trunk=trunk, size=8, seed=seed, **options)


def images(count: int = 6) -> Tensor:
    return torch.rand(count, 1, 32, 32, generator=torch.Generator().manual_seed(0))


def train_steps(embedder: models.Embedder, steps: int = 3) -> None:
    optimizer = torch.optim.SGD(embedder.parameters(), lr=0.1)
    embedder.train()
    for _ in range(steps):
        optimizer.zero_grad()
        embedder(images()).sum().backward()
        optimizer.step()


def test_initialization_depends_on_the_seed_and_on_nothing_else() -> None:
    torch.manual_seed(1)
    one = small(seed=3).state_dict()
    torch.manual_seed(2)
    same, other = small(seed=3).state_dict(), small(seed=4).state_dict()
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["head.projection.weight"], other["head.projection.weight"])
    assert not torch.equal(one["trunk.network.0.0.weight"], other["trunk.network.0.0.weight"])


def test_building_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    small()
    assert torch.equal(before, torch.get_rng_state())


def test_embedding_is_projection_of_features() -> None:
    embedder = small().eval()
    assert torch.equal(embedder(images()), embedder.project(embedder.features(images())))
    assert embedder.features(images()).shape == (6, 16)
    assert embedder.size == 8


@pytest.mark.parametrize("normalize", [True, False])
def test_normalize_means_unit_length(normalize: bool) -> None:
    norms = small(normalize=normalize).eval()(images()).norm(dim=1)
    assert torch.allclose(norms, torch.ones(6)) is normalize


@pytest.mark.parametrize(
    ("pooling", "expected"), [("avg", 2.5), ("max", 4.0), ("avg+max", 6.5), ("gem", (100 / 4) ** (1 / 3))]
)
def test_poolings(pooling: str, expected: float) -> None:
    pooled = small(pooling=pooling).pooling(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
    assert pooled.shape == (1, 1)
    assert pooled.item() == pytest.approx(expected)


def test_gem_learns_its_power_in_the_head_group() -> None:
    embedder = small(pooling="gem")
    power = embedder.get_parameter("pooling.power")
    before = power.item()
    train_steps(embedder)
    assert power.item() != before
    assert any(p is power for p in embedder.parameter_groups()["head"])


@pytest.mark.parametrize(("head", "size"), [("linear", 8), ("mlp", 8), ("none", 16)])
def test_heads(head: str, size: int) -> None:
    embedder = small(head=head)
    assert embedder.size == size
    assert embedder(images()).shape == (6, size)


def test_a_head_alone_is_the_head_of_the_embedder() -> None:
    embedder = small(seed=5)
    head = models.create_head("linear", num_features=16, size=8, seed=5)
    assert torch.equal(
        head.get_parameter("projection.weight"), embedder.head.get_parameter("projection.weight")
    )


@pytest.mark.parametrize("mode", ["train", "statistics", "all"])
def test_batch_norm_is_what_its_mode_says_after_training_steps(mode: str) -> None:
    embedder = small(freeze_bn=mode)
    layers = [layer for layer in embedder.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    before = [{key: value.clone() for key, value in layer.state_dict().items()} for layer in layers]
    train_steps(embedder)
    for layer, old in zip(layers, before, strict=True):
        new = layer.state_dict()
        moved = {key for key in old if not torch.equal(old[key], new[key])}
        statistics = {"running_mean", "running_var", "num_batches_tracked"}
        expected = {"train": statistics | {"weight", "bias"}, "statistics": {"weight", "bias"}, "all": set()}
        assert moved == expected[mode]
        assert layer.training is (mode == "train")
        assert all(p.requires_grad is (mode != "all") for p in layer.parameters())


def test_frozen_statistics_make_training_and_evaluation_agree() -> None:
    embedder = small(freeze_bn="statistics")
    assert torch.equal(embedder.train()(images()), embedder.eval()(images()))


def test_parameter_groups_cover_everything_that_learns_once() -> None:
    embedder = small(pooling="gem", freeze_bn="all", head="mlp")
    grouped = [id(p) for group in embedder.parameter_groups().values() for p in group]
    assert sorted(grouped) == sorted(id(p) for p in embedder.parameters() if p.requires_grad)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "avgmax"}, 'unknown pooling "avgmax"; did you mean "avg\\+max"'),
        ({"head": "liner"}, 'unknown head "liner"; did you mean "linear"'),
        ({"freeze_bn": "stats"}, 'unknown freeze_bn "stats"'),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        small(**options)


def test_uint8_and_float_images_mean_the_same() -> None:
    embedder = small().eval()
    bytes_ = torch.randint(
        0, 256, (4, 1, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    assert torch.allclose(embedder(bytes_), embedder(bytes_ / 255), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("of_features", [True, False])
def test_a_training_step_of_the_head_is_that_of_autograd(dtype: torch.dtype, of_features: bool) -> None:
    """The quick way of a linear head in training against the plain one."""
    head = models.create_head("linear", num_features=12, size=5).to(dtype)
    upstream = torch.rand(7, 5, dtype=dtype, generator=torch.Generator().manual_seed(2))
    results = []
    for plain in (True, False):
        features = torch.randn(7, 12, dtype=dtype, generator=torch.Generator().manual_seed(1))
        features.requires_grad_(of_features)
        head.zero_grad()
        if plain:
            embeddings = torch.nn.functional.normalize(head.projection(features), dim=-1)
        else:
            embeddings = head.train()(features)
        embeddings.backward(upstream)
        gradients = [p.grad for p in head.parameters()]
        results.append([embeddings, features.grad, *(None if g is None else g.clone() for g in gradients)])
    tolerance = 1e-6 if dtype == torch.float32 else 1e-14
    for expected, found in zip(*results, strict=True):
        assert (expected is None) == (found is None)
        if expected is not None:
            assert torch.allclose(found, expected, atol=tolerance, rtol=tolerance)


def test_the_head_has_no_quick_way_where_autograd_must_see_it() -> None:
    head = models.create_head("linear", num_features=12, size=5)
    features = torch.rand(3, 12)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert head.train()(features).dtype == torch.bfloat16
    assert "LinearUnit" not in type(head.eval()(features).grad_fn).__name__
