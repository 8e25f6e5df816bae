"""Chunked batches give the loss of the whole batch and exact gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from levelfield import losses, models
from levelfield.train._chunks import ChunkedPass

IMAGES = torch.rand(12, 1, 16, 16, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(12) % 4


def embedder() -> models.Embedder:
    trunk = models.create_trunk("conv4", in_channels=1, width=4)
    return models.create_embedder(trunk=trunk, size=8, freeze_bn="statistics").double()


def gradients(network: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("loss", ["contrastive", "multi_similarity", "smooth_ap", "supcon"])
@pytest.mark.parametrize("size", [1, 5, 6, 12, 100])
def test_gradients_are_those_of_the_plain_step(loss: str, size: int) -> None:
    plain, chunked = embedder(), embedder()
    losses.create(loss)(plain(IMAGES.double()), LABELS).backward()
    chunks = ChunkedPass(chunked, IMAGES.double(), size=size)
    losses.create(loss)(chunks.embeddings, LABELS).backward()
    chunks.backward()
    expected, found = gradients(plain), gradients(chunked)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, rtol=1e-9, atol=1e-14), name


def test_no_graph_of_the_network_is_kept_between_the_passes() -> None:
    embeddings = ChunkedPass(embedder(), IMAGES.double(), size=4).embeddings
    assert embeddings.is_leaf and embeddings.requires_grad


def test_dropout_is_the_same_in_both_passes() -> None:
    """The reference is the same chunks with their graphs, from the same seed."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(256, 32), nn.Dropout(0.5), nn.Linear(32, 8))
    torch.manual_seed(3)
    whole = torch.cat([network(chunk) for chunk in torch.split(IMAGES, 5)])
    after_plain = torch.rand(1)
    losses.create("contrastive")(whole, LABELS).backward()
    expected = {name: gradient.clone() for name, gradient in gradients(network).items()}

    network.zero_grad()
    torch.manual_seed(3)
    chunks = ChunkedPass(network, IMAGES, size=5)
    losses.create("contrastive")(chunks.embeddings, LABELS).backward()
    chunks.backward()
    after_chunks = torch.rand(1)
    assert torch.equal(chunks.embeddings, whole)
    assert torch.equal(after_chunks, after_plain)  # later steps draw the same numbers
    for name, gradient in gradients(network).items():
        assert torch.allclose(gradient, expected[name], rtol=1e-5, atol=1e-7), name
