"""Small model for tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from levelfield.models import Embedder
from levelfield.retrieval.embedders import Architecture, Preprocessing, build_network, write_model

SHAPE = Architecture(trunk="conv4", trunk_options={"width": 4}, size=8)


def trained(seed: int = 0, shape: Architecture = SHAPE) -> Embedder:
    """Return a network with weights and BatchNorm statistics that differ from the initial ones."""
    network = build_network(shape)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in network.state_dict().values():
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape, generator=generator) - 0.5 * (value.ndim > 1))
    return network


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Model directory."""
    directory = tmp_path / "model"
    write_model(directory, trained(), architecture=SHAPE, preprocessing=Preprocessing(size=(32, 32)))
    return directory
