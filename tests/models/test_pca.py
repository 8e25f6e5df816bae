"""The PCA head is a principal component analysis."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from levelfield import models
from levelfield.core.errors import UsageError
from levelfield.models.pca import pca_head


def features(count: int = 60, width: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, width, generator=generator) @ torch.randn(width, width, generator=generator) + 3


def test_it_agrees_with_a_singular_value_decomposition() -> None:
    x = features()
    centered = x.double().numpy() - x.double().numpy().mean(0)
    left, values, _ = np.linalg.svd(centered, full_matrices=False)
    expected = left[:, :5] * values[:5]
    got = pca_head(x, size=5, normalize=False)(x).numpy()
    assert np.allclose(np.abs(got), np.abs(expected), atol=1e-4)


def test_all_directions_keep_all_distances() -> None:
    x = features()
    projected = pca_head(x, size=12, normalize=False)(x)
    assert torch.allclose(torch.pdist(x), torch.pdist(projected), atol=1e-3)


def test_it_is_a_head_that_does_not_learn_and_draws_no_random_numbers() -> None:
    before = torch.get_rng_state()
    head = pca_head(features(), size=4)
    assert torch.equal(before, torch.get_rng_state())
    assert isinstance(head, models.Head)
    assert head.size == 4
    assert not any(parameter.requires_grad for parameter in head.parameters())
    assert torch.allclose(head(features()).norm(dim=1), torch.ones(60))


@pytest.mark.parametrize("size", [0, 13])
def test_sizes_that_cannot_be(size: int) -> None:
    with pytest.raises(UsageError, match=f"cannot give size {size}; choose at most 12"):
        pca_head(features(), size=size)
