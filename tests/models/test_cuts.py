"""A trunk cut in two is the trunk, and a place where it cannot be cut is named with its reason."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from levelfield import models
from levelfield.core.errors import UsageError
from levelfield.models._cuts import list_cuts, split_at_cut
from levelfield.models._trunk import Trunk

FAMILIES = {
    "conv4": 32,
    "bninception": 64,
    "googlenet": 64,
    "resnet50": 64,
    "timm:tf_efficientnet_lite0": 64,
    "timm:mobilenetv3_small_050": 64,
    "timm:convnext_atto": 64,
    "timm:densenet121": 64,
    "timm:vit_tiny_patch16_224": 224,
    "timm:swin_tiny_patch4_window7_224": 224,
}


def images(size: int) -> Tensor:
    return torch.rand(3, 3, size, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_two_parts_are_the_whole_trunk(name: str) -> None:
    size = FAMILIES[name]
    trunk = models.create_trunk(name).eval()
    cuts = list_cuts(trunk, image_size=size)
    assert len(cuts) >= 4
    with torch.no_grad():
        whole = trunk(images(size))
        for cut in cuts[:: max(1, len(cuts) // 4)]:
            lower, upper = split_at_cut(trunk, cut.name)
            activations = lower(images(size))
            assert activations.shape[1:] == cut.shape
            assert torch.equal(upper.eval()(activations), whole), cut.name


@pytest.mark.parametrize("name", FAMILIES)
def test_less_is_trained_the_later_the_cut(name: str) -> None:
    cuts = list_cuts(models.create_trunk(name), image_size=FAMILIES[name])
    for value in ("parameters", "multiply_adds"):
        shares = [getattr(cut, value) for cut in cuts]
        assert shares == sorted(shares, reverse=True)
        assert 0 <= shares[-1] <= shares[0] <= 1


def test_shares_are_those_of_a_count_by_hand() -> None:
    network = nn.Sequential(
        nn.Conv2d(1, 2, 1, bias=False), nn.Conv2d(2, 4, 1, bias=False), nn.Conv2d(4, 8, 1, bias=False)
    )
    cuts = list_cuts(Trunk(network, name="three", num_features=8), image_size=4, channels=1)
    assert [cut.name for cut in cuts] == ["0", "1", "2"]
    assert [cut.parameters for cut in cuts] == [1.0, 40 / 42, 32 / 42]
    assert [cut.multiply_adds for cut in cuts] == [1.0, 40 / 42, 32 / 42]
    assert [cut.bytes for cut in cuts] == [1 * 16 * 2, 2 * 16 * 2, 4 * 16 * 2]


def test_the_upper_part_keeps_the_names_of_the_whole() -> None:
    trunk = models.create_trunk("timm:tf_efficientnet_lite0")
    _, upper = split_at_cut(trunk, "blocks.6")
    whole, part = trunk.state_dict(), upper.state_dict()
    assert part.keys() < whole.keys()
    assert {key.split(".")[1] for key in part} == {"blocks", "conv_head", "bn2"}
    assert all(torch.equal(part[key], whole[key]) for key in part)


def test_gradients_of_the_upper_part_are_those_of_the_whole() -> None:
    def gradients(cut: bool) -> dict[str, Tensor]:
        trunk = models.create_trunk("timm:resnet18").train()
        trunk.network.eval()
        lower, upper = split_at_cut(trunk, "layer4")
        features = upper(lower(images(64))) if cut else trunk(images(64))
        features.square().mean().backward()
        return {name: p.grad for name, p in upper.named_parameters() if p.grad is not None}

    alone, whole = gradients(cut=True), gradients(cut=False)
    assert alone.keys() == whole.keys() and len(alone) == 15
    assert all(torch.equal(alone[name], whole[name]) for name in alone)


def test_dropout_after_the_cut_works_in_training_only() -> None:
    trunk = models.create_trunk("timm:vit_tiny_patch16_224", attn_drop_rate=0.5, drop_path_rate=0.5)
    lower, upper = split_at_cut(trunk, "blocks.10")
    activations = lower.eval()(images(224))
    assert not torch.equal(upper.train()(activations), upper(activations))
    assert torch.equal(upper.eval()(activations), upper(activations))
    assert torch.equal(upper(activations), trunk.eval()(images(224)))


def test_cutting_leaves_the_modes_of_layers_as_they_were() -> None:
    trunk = models.create_trunk("timm:resnet18").train()
    trunk.network.get_submodule("layer1").eval()
    before = {name: module.training for name, module in trunk.named_modules()}
    list_cuts(trunk, image_size=64)
    split_at_cut(trunk, "layer4")
    assert {name: module.training for name, module in trunk.named_modules()} == before


class Skipping(nn.Module):
    """Its second layer is bridged by what the first one gives."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(3, 3, 1) for _ in range(3))

    def forward(self, maps: Tensor) -> Tensor:
        first = self.first(maps)
        result: Tensor = self.third(self.second(first).relu()) + first
        return result


class Repeating(nn.Module):
    """Calls one layer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 1)
        self.last = nn.Conv2d(3, 3, 1)

    def forward(self, maps: Tensor) -> Tensor:
        last: Tensor = self.last(self.layer(self.layer(maps)))
        return last


class Deciding(nn.Module):
    """Looks at values to decide what to do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 1)

    def forward(self, maps: Tensor) -> Tensor:
        result: Tensor = self.layer(maps) if maps.sum() > 0 else maps
        return result


@pytest.mark.parametrize(
    ("network", "name", "message"),
    [
        (Skipping(), "third", "cannot be cut at third: the output of first is used both before and after it"),
        (Repeating(), "layer", "cannot be cut at layer: layer runs 2 times"),
        (Deciding(), "layer", "cannot be cut at layer: its forward pass cannot be traced"),
        (
            Skipping(),
            "thrid",
            'has no module "thrid"; choose from first, second; `levelfield ls',
        ),
        (Skipping(), "", 'has no module ""'),
    ],
)
def test_a_wrong_cut_is_one_clear_line(network: nn.Module, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        split_at_cut(Trunk(network, name="own", num_features=3), name)
    assert "\n" not in str(caught.value)


def test_near_cuts_are_suggested() -> None:
    trunk = models.create_trunk("timm:tf_efficientnet_lite0")
    with pytest.raises(UsageError, match=r'no module "block.6"; did you mean "blocks.6"'):
        split_at_cut(trunk, "block.6")


def test_a_trunk_that_cannot_be_traced_has_no_cuts() -> None:
    assert list_cuts(Trunk(Deciding(), name="own", num_features=3), image_size=8) == []


def test_images_that_a_trunk_does_not_take_are_one_clear_line() -> None:
    with pytest.raises(UsageError, match="trunk mlp does not accept images of 3 x 224 x 224") as caught:
        list_cuts(models.create_trunk("mlp"), image_size=224)
    assert "\n" not in str(caught.value)


def test_tokens_that_learn_do_not_hide_the_cuts() -> None:
    trunk = models.create_trunk("timm:cait_xxs24_224", depth=1, img_size=32)
    learning = {name for name, parameter in trunk.named_parameters() if parameter.requires_grad}
    assert "blocks" in {cut.name for cut in list_cuts(trunk, image_size=32)}
    assert learning == {name for name, parameter in trunk.named_parameters() if parameter.requires_grad}


def test_a_network_that_does_not_say_how_wide_it_is() -> None:
    trunk = models.create_trunk("timm:poolformer_s12")
    assert trunk(torch.zeros(1, 3, 64, 64)).shape[1] == trunk.num_features == 512
