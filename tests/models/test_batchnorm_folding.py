"""Folding BatchNorm away changes no feature."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from levelfield import models
from levelfield.models._batchnorm_folding import fold_batchnorm


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def with_random_statistics(network: nn.Module) -> nn.Module:
    """BatchNorm layers that do something, as after training."""
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean = torch.randn(layer.num_features, generator=generator()) * 0.1
            layer.running_var = torch.rand(layer.num_features, generator=generator()) + 0.5
            layer.weight.data = torch.rand(layer.num_features, generator=generator()) + 0.5
    return network


def norms(network: nn.Module) -> int:
    return sum(isinstance(layer, nn.BatchNorm2d) for layer in network.modules())


@pytest.mark.parametrize(
    "name", ["bninception", "googlenet", "resnet50", "timm:test_efficientnet", "timm:test_resnet"]
)
def test_networks_lose_every_batch_norm_and_keep_their_features(name: str) -> None:
    trunk = with_random_statistics(models.create_trunk(name)).eval()
    images = torch.rand(2, 3, 64, 64, generator=generator())
    quick = fold_batchnorm(trunk, images[:1])
    assert norms(trunk) > 0
    assert norms(quick) == 0
    with torch.inference_mode():
        expected = trunk(images)
        assert torch.allclose(quick(images), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_the_original_is_left_alone() -> None:
    trunk = models.create_trunk("conv4").train()
    before = {key: value.clone() for key, value in trunk.state_dict().items()}
    fold_batchnorm(trunk, torch.rand(1, 3, 32, 32))
    assert trunk.training
    assert all(torch.equal(before[key], value) for key, value in trunk.state_dict().items())


class OutputUsedTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.conv(x)
        return maps + self.norm(maps)


class SharedConvolution(OutputUsedTwice):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.conv(self.conv(x)))
        return out


class ChangedInBetween(OutputUsedTwice):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.conv(x).relu_())
        return out


@pytest.mark.parametrize("kind", [OutputUsedTwice, SharedConvolution, ChangedInBetween])
def test_what_cannot_be_folded_is_left(kind: type[nn.Module]) -> None:
    network = with_random_statistics(kind()).eval()
    images = torch.randn(2, 3, 4, 4, generator=generator())
    quick = fold_batchnorm(network, images)
    assert norms(quick) == 1
    with torch.inference_mode():
        assert torch.allclose(quick(images), network(images), atol=1e-5)


def test_networks_are_folded_inside_inference_mode() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).eval()
    example = torch.rand(2, 3, 5, 5)
    with torch.inference_mode():
        folded = fold_batchnorm(network, example.clone())
    assert isinstance(folded.get_submodule("1"), nn.Identity)
    torch.testing.assert_close(folded(example), network(example))
