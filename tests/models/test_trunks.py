"""Every trunk keeps the contract, and the papers' trunks are the published ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.helpers.built_in import built_in_names
from tests.oracles.bninception_names import LAYERS

from levelfield import models
from levelfield.core.errors import UsageError

TRUNKS = [
    ("conv4", {"width": 4}, 32),
    ("bninception", {}, 64),
    ("googlenet", {}, 64),
    ("resnet50", {}, 64),
    ("mlp", {"image_size": 8}, 8),
    ("timm:test_efficientnet", {}, 64),
    ("timm:test_vit", {}, 160),
    ("timm:test_convnext", {}, 64),
    ("efficientnet_lite012", {}, 64),
]


@pytest.mark.parametrize(("name", "options", "size"), TRUNKS)
def test_a_trunk_gives_the_features_it_promises(name: str, options: dict[str, Any], size: int) -> None:
    trunk = models.create_trunk(name, **options).eval()
    with torch.inference_mode():
        features = trunk(torch.randint(0, 256, (2, 3, size, size), dtype=torch.uint8))
    assert features.shape[:2] == (2, trunk.num_features)
    assert features.ndim == (4 if trunk.spatial else 2)
    assert trunk.name == name
    assert models.registry[name].card.summary


def test_every_registered_trunk_is_tested() -> None:
    assert set(built_in_names(models.registry)) <= {name for name, _, _ in TRUNKS}


@pytest.mark.parametrize("name", ["conv4", "bninception", "googlenet", "resnet50", "timm:test_efficientnet"])
def test_a_trunk_takes_other_channels(name: str) -> None:
    trunk = models.create_trunk(name, in_channels=1).eval()
    with torch.inference_mode():
        assert trunk(torch.rand(2, 1, 64, 64)).shape[1] == trunk.num_features


def test_timm_networks_with_a_plain_mean_give_maps_and_others_pool_by_themselves() -> None:
    assert models.create_trunk("timm:test_efficientnet").spatial
    assert not models.create_trunk("timm:test_vit").spatial
    # ConvNeXt has a norm after its mean: a mean of its maps would not be the feature it was trained for.
    assert not models.create_trunk("timm:test_convnext").spatial


def test_timm_maps_pooled_by_mean_are_the_features_of_timm() -> None:
    import timm

    trunk = models.create_trunk("timm:test_efficientnet").eval()
    reference = timm.create_model("test_efficientnet", num_classes=0).eval()
    reference.load_state_dict(trunk.network.state_dict())
    images = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        assert torch.allclose(trunk(images).mean((2, 3)), reference(trunk.prepare(images)), atol=1e-5)


def test_a_trunk_of_one_image_size_says_so() -> None:
    trunk = models.create_trunk("timm:test_vit")
    with pytest.raises(UsageError, match="timm:test_vit needs images of 160 x 160 pixels, got 227 x 227"):
        trunk(torch.rand(1, 3, 227, 227))


def test_a_trunk_that_pools_by_itself_refuses_another_pooling() -> None:
    with pytest.raises(UsageError, match="mlp pools by itself"):
        models.create_embedder(trunk=models.create_trunk("mlp"), pooling="gem")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet5", {}, 'unknown trunk "resnet5"; did you mean "resnet50"'),
        ("timm:resnet55", {}, 'timm has no network "resnet55"; did you mean "resnet5'),
        ("timm:test_efficientnet", {"img_size": 32}, "cannot be created with .*check the options"),
        ("conv4", {"widht": 3}, 'has no parameter "widht"; did you mean "width"'),
        ("conv4", {"width": 0}, "conv4: width is 0"),
        ("conv4", {"in_channels": 0}, "in_channels is 0"),
        ("resnet50", {"in_channels": 1, "weights": "imagenet"}, "need 3 channels, not 1"),
    ],
)
def test_wrong_requests_are_one_clear_line(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        models.create_trunk(name, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "googlenet", "timm:test_efficientnet", "mlp"])
def test_initialization_is_seeded_and_leaves_the_global_stream(name: str) -> None:
    before = torch.get_rng_state()
    one, same, other = (models.create_trunk(name, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    first = next(iter(one.state_dict()))
    assert torch.equal(one.state_dict()[first], same.state_dict()[first])
    assert not torch.equal(one.state_dict()[first], other.state_dict()[first])


def test_torchvision_trunks_are_the_library_networks_before_pooling() -> None:
    from torchvision import models as library

    trunk = models.create_trunk("resnet50").eval()
    reference = library.resnet50().eval()
    reference.load_state_dict({**reference.state_dict(), **trunk.network.state_dict()})
    reference.fc = torch.nn.Identity()
    images = torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        assert torch.allclose(trunk(images).mean((2, 3)), reference(trunk.prepare(images)), atol=1e-5)


def test_imagenet_input_convention() -> None:
    image = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
    assert torch.allclose(models.create_trunk("resnet50").prepare(image), torch.zeros(1, 3, 1, 1), atol=1e-6)


def test_bninception_takes_blue_first_in_0_to_255() -> None:
    trunk = models.create_trunk("bninception")
    red = torch.tensor([255, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1)
    assert trunk.prepare(red).flatten().tolist() == pytest.approx([-104, -117, 255 - 128], abs=1e-4)


def test_bninception_has_the_layers_of_the_public_file() -> None:
    assert len(LAYERS) == 69
    expected = {f"{layer}.{tensor}" for layer in LAYERS for tensor in ("weight", "bias")}
    statistics = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    expected |= {f"{layer}_bn.{tensor}" for layer in LAYERS for tensor in statistics}
    state = models.create_trunk("bninception").network.state_dict()
    assert state.keys() == expected
    shapes = {
        "conv1_7x7_s2.weight": (64, 3, 7, 7),
        "inception_3c_3x3.weight": (160, 128, 3, 3),
        "inception_4e_double_3x3_1.weight": (256, 192, 3, 3),
        "inception_5a_1x1.weight": (352, 1056, 1, 1),
        "inception_5b_pool_proj.weight": (128, 1024, 1, 1),
    }
    assert {key: tuple(state[key].shape) for key in shapes} == shapes
    # Known as a network of 11,295,240 parameters, of which 1,025,000 are the classifier's.
    learned = sum(parameter.numel() for parameter in models.create_trunk("bninception").parameters())
    assert learned == 11_295_240 - 1_025_000


@pytest.mark.parametrize(("size", "maps"), [(224, 7), (227, 7), (256, 8)])
def test_bninception_map_sizes(size: int, maps: int) -> None:
    with torch.device("meta"):
        network = models.create_trunk("bninception").network
        assert network(torch.empty(1, 3, size, size)).shape == (1, 1024, maps, maps)


def test_bninception_names_the_sizes_it_takes() -> None:
    with torch.device("meta"), pytest.raises(UsageError, match="multiple of 32"):
        models.create_trunk("bninception").network(torch.empty(1, 3, 200, 200))


def test_vectors_reach_the_mlp_as_they_are() -> None:
    vectors = torch.tensor([[-3.0, 5.0]])
    assert torch.equal(models.create_trunk("mlp", in_channels=2).prepare(vectors), vectors)
