"""Training a small part of a trunk: it starts as it was, and nothing else moves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield import models
from levelfield.core.errors import UsageError

VIT = "timm:vit_tiny_patch16_224"


def vit() -> models.Trunk:
    return models.create_trunk(VIT, depth=2)


def images() -> Tensor:
    return torch.rand(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))


def learning(trunk: models.Trunk) -> set[str]:
    return {name for name, parameter in trunk.named_parameters() if parameter.requires_grad}


def test_low_rank_additions_start_at_nothing_and_learn_alone() -> None:
    trunk, before = vit().eval(), vit().eval()
    models.add_lora(trunk, rank=4, targets=["qkv", "fc1"])
    assert torch.equal(trunk(images()), before(images()))
    assert learning(trunk) == {
        f"network.blocks.{block}.{layer}.parametrizations.weight.0.{part}"
        for block in (0, 1)
        for layer in ("attn.qkv", "mlp.fc1")
        for part in ("down", "up")
    }
    optimizer = torch.optim.SGD([p for p in trunk.parameters() if p.requires_grad], lr=1.0)
    for _ in range(2):
        optimizer.zero_grad()
        trunk(images()).square().mean().backward()
        optimizer.step()
    assert not torch.equal(trunk(images()), before(images()))


def test_the_addition_is_the_product_of_its_matrices() -> None:
    trunk = models.create_trunk("mlp", width=8, depth=1)
    models.add_lora(trunk, rank=2, alpha=6.0)
    layer = trunk.network.get_submodule("1")
    original = layer.get_parameter("parametrizations.weight.original")
    addition = layer.get_submodule("parametrizations.weight.0")
    up, down = addition.get_parameter("up"), addition.get_parameter("down")
    torch.nn.init.normal_(up, generator=torch.Generator().manual_seed(0))
    expected = original + 3.0 * up @ down
    assert isinstance(layer.weight, torch.Tensor)
    assert torch.allclose(layer.weight, expected, atol=1e-6)


def test_merging_gives_plain_layers_and_leaves_the_network_as_it_is() -> None:
    trunk, plain = models.create_trunk("mlp", width=8), models.create_trunk("mlp", width=8)
    models.add_lora(trunk, rank=2)
    for name, parameter in trunk.named_parameters():
        if name.endswith(".up"):
            torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    plain.load_state_dict(models.merged_state(trunk))
    pixels = torch.rand(4, 3, 1, 1, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(plain(pixels), trunk(pixels), atol=1e-6)
    assert not torch.allclose(plain(pixels), models.create_trunk("mlp", width=8)(pixels))
    assert {name.rsplit(".", 1)[-1] for name in learning(trunk)} == {"up", "down"}


def test_the_seed_decides_the_additions() -> None:
    def first_values(seed: int) -> Tensor:
        trunk = models.create_trunk("mlp", width=8, depth=1)
        models.add_lora(trunk, rank=2, seed=seed)
        return dict(trunk.named_parameters())["network.1.parametrizations.weight.0.down"]

    assert torch.equal(first_values(1), first_values(1))
    assert not torch.equal(first_values(1), first_values(2))


def test_bitfit_trains_biases() -> None:
    trunk = vit()
    models.train_biases(trunk)
    assert learning(trunk) == {name for name, _ in trunk.named_parameters() if name.endswith(".bias")}


@pytest.mark.parametrize(
    ("name", "expected"),
    [(VIT, {"norm", "norm1", "norm2"}), ("timm:resnet10t", {"bn1", "bn2", "1", "3", "4", "2"})],
)
def test_norm_trains_norm_layers(name: str, expected: set[str]) -> None:
    trunk = models.create_trunk(name)
    models.train_norms(trunk)
    names = learning(trunk)
    assert {part.split(".")[-2] for part in names} <= expected
    assert all(part.rsplit(".", 1)[-1] in ("weight", "bias") for part in names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": ["qvk"]}, 'has no linear layer "qvk" for trunk.lora.targets; did you mean "qkv"'),
        ({"rank": 500}, "trunk.lora.rank 500 exceeds that of layer"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        models.add_lora(vit(), **options)


def test_a_trunk_without_norm_layers_says_so() -> None:
    with pytest.raises(UsageError, match="has no parameters to train in mode norm"):
        models.train_norms(models.create_trunk("mlp"))
