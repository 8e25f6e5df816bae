"""Regularizers compute in float32: float16 embeddings give the value and gradient of float32 ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield.losses import regularizers

LABELS = torch.arange(16) // 4


def inputs(name: str, *, length: float) -> tuple[Tensor, dict[str, Tensor]]:
    """Return embeddings with a duplicate, which float16 holds exactly, and the other inputs."""
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(16, 8, generator=generator)
    embeddings = (embeddings / embeddings.norm(dim=1, keepdim=True) * length).half().float()
    embeddings[1] = embeddings[0]
    proxies = torch.randn(4, 8, generator=generator).half().float()
    known = {"labels": LABELS, "proxies": proxies}
    return embeddings, {key: known[key] for key in regularizers.registry[name].card.sees}


def value_and_gradient(name: str, embeddings: Tensor, others: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    given: dict[str, Any] = {"num_classes": 4, "embedding_size": 8, "seed": 0, "ancestors": 16}
    given = {key: given[key] for key in given if key in regularizers.registry[name].parameters}
    leaf = embeddings.clone().requires_grad_()
    value = regularizers.create(name, **given)(leaf, **others)
    value.backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad.float()


@pytest.mark.parametrize("length", [1.0, 400.0])
@pytest.mark.parametrize("name", regularizers.registry.names())
def test_half_precision_changes_nothing_but_the_gradients_dtype(name: str, length: float) -> None:
    embeddings, others = inputs(name, length=length)
    value, gradient = value_and_gradient(name, embeddings, others)
    half, half_gradient = value_and_gradient(name, embeddings.half(), others)
    assert half.dtype == torch.float32 and torch.isfinite(half)
    torch.testing.assert_close(half, value, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        half_gradient, gradient, rtol=2e-3, atol=1e-3 * float(gradient.abs().max()) + 1e-7
    )
