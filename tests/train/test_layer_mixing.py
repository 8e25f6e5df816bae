"""Mixup in the layers of a trunk equals the written-out forward pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import levelfield as lf
from levelfield import models
from levelfield.core.errors import UsageError
from levelfield.protocol import resolve_experiment
from levelfield.samplers.mixup import draw_mixing
from levelfield.train._layer_mixing import LayerMixing, find_layers

LABELS = torch.arange(6)


def embedder() -> models.Embedder:
    trunk = models.create_trunk("conv4", width=4, in_channels=1, seed=0)
    return models.create_embedder(trunk=trunk, size=5)


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def slow_features(network: models.Embedder, images: torch.Tensor, layer: int, seed: int) -> torch.Tensor:
    """Run block after block, and blend after one of them."""
    partner, weight = draw_mixing(len(images), alpha=2.0, generator=stream(seed))
    maps = (images - 0.5) / 0.5  # the trunk's normalization of its inputs
    for number, block in enumerate(find_layers(network.trunk, "0,1,2,3").values()):
        maps = block(maps)
        if number == layer:
            maps = torch.stack([weight * maps[i] + (1 - weight) * maps[partner[i]] for i in range(len(maps))])
    return network.pooling(maps)


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_the_output_of_the_layer_is_blended(layer: int) -> None:
    network, images = embedder(), torch.randn(6, 1, 32, 32, generator=stream(9))
    mixing = LayerMixing(network.trunk, str(layer))
    mixed = mixing.mix(network, images, LABELS, alpha=2.0, generator=stream(4))
    mixing._current = None
    torch.testing.assert_close(mixed.features, slow_features(network, images, layer, seed=4))
    assert sorted(mixed.partner_labels.tolist()) == LABELS.tolist()
    assert not torch.allclose(mixed.features, network.features(images))


def test_every_layer_gets_its_turn_and_evaluation_is_not_mixed() -> None:
    network, images = embedder(), torch.randn(6, 1, 32, 32, generator=stream(9))
    mixing, generator, seen = LayerMixing(network.trunk, "0, 3"), stream(1), set()
    network.train()
    for _ in range(12):
        mixing.mix(network, images, LABELS, alpha=2.0, generator=generator)
        assert mixing._current is not None
        seen.add(id(mixing._current[0]))
    assert len(seen) == 2
    fresh = embedder()
    fresh.load_state_dict(network.state_dict())
    torch.testing.assert_close(network.eval().features(images), fresh.eval().features(images))


@pytest.mark.parametrize(
    ("trunk", "options", "message"),
    [
        ({}, {"mixup.alpha": 2.0, "mixup.layers": "0,layer9"}, 'trunk conv4 has no layer "layer9"'),
        ({}, {"mixup.layers": "0"}, "set mixup.alpha too"),
        ({"mode": "frozen"}, {"mixup.alpha": 2.0, "mixup.layers": "0"}, "trunk.mode is frozen"),
        ({}, {"mixup.alpha": 2.0, "mixup.layers": "0,3"}, None),
    ],
)
def test_layers_are_checked_before_anything_runs(
    trunk: dict[str, Any], options: dict[str, Any], message: str | None, tiny: dict[str, Any]
) -> None:
    network = {"name": "conv4", "width": 4, "in_channels": 1, **trunk}
    method = {"name": "mixed", "loss": "triplet", "set": options}
    experiment = lf.Experiment.build(**{**tiny, "methods": [method], "trunk": network})
    if message is None:
        resolve_experiment(experiment)
        return
    with pytest.raises(UsageError, match=message):
        resolve_experiment(experiment)
