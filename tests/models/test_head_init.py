"""A head starts where its init says, for any shape of features."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from levelfield import models
from levelfield.core.errors import UsageError
from levelfield.models._head_init import init_head, principal_directions


def features(rows: int, width: int, *, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scales = torch.linspace(3, 1, width)
    return torch.randn(rows, width, generator=generator) * scales + torch.arange(width)


def started(init: str, data: Tensor, *, size: int, kind: str = "linear", seed: int = 0) -> models.Head:
    head = models.create_head(kind, num_features=data.shape[1], size=size, normalize=False, seed=seed)
    init_head(head, principal_directions(data), init=init, seed=seed)
    return head


def pca_by_svd(data: Tensor, size: int) -> Tensor:
    """The slow, obvious way: singular vectors of the centered data, largest coordinate positive."""
    centered = data.double() - data.double().mean(0)
    vectors = torch.linalg.svd(centered, full_matrices=False).Vh[:size]
    signs = torch.stack([row[row.abs().argmax()].sign() for row in vectors])
    return (centered @ (vectors * signs[:, None]).T).float()


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_pca_is_pca(kind: str) -> None:
    data = features(200, 12)
    head = started("pca", data, size=5, kind=kind)
    assert torch.allclose(head(data), pca_by_svd(data, 5), atol=1e-4)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_whitened_features_have_no_correlation_and_equal_variance(kind: str) -> None:
    data = features(500, 12)
    whitened = started("whitening", data, size=6, kind=kind)(data)
    assert torch.allclose(whitened.T.cov(), torch.eye(6), atol=1e-4)


@pytest.mark.parametrize("init", ["pca", "orthogonal"])
@pytest.mark.parametrize(("rows", "width", "size"), [(50, 8, 4), (5, 16, 12), (1, 6, 4), (40, 8, 8)])
def test_rows_are_orthonormal_also_where_features_span_too_little(
    init: str, rows: int, width: int, size: int
) -> None:
    weight = started(init, features(rows, width), size=size).get_parameter("projection.weight")
    assert torch.allclose(weight @ weight.T, torch.eye(size), atol=1e-5)


@pytest.mark.parametrize("init", ["pca", "orthogonal"])
@pytest.mark.parametrize(("rows", "width", "size"), [(50, 4, 4), (50, 4, 9), (3, 4, 9)])
def test_a_head_as_wide_as_the_features_keeps_all_distances(
    init: str, rows: int, width: int, size: int
) -> None:
    data, others = features(rows, width), features(20, width, seed=1)
    embeddings = started(init, data, size=size)(others)
    assert torch.allclose(torch.cdist(embeddings, embeddings), torch.cdist(others, others), atol=1e-3)


@pytest.mark.parametrize("init", ["pca", "whitening", "orthogonal"])
def test_the_mean_of_the_fitted_features_is_taken_off(init: str) -> None:
    data = features(100, 8)
    assert torch.allclose(started(init, data, size=4)(data).mean(0), torch.zeros(4), atol=1e-4)


@pytest.mark.parametrize("init", ["pca", "whitening", "orthogonal"])
def test_few_or_constant_features_give_finite_heads(init: str) -> None:
    for data in (features(2, 8), torch.ones(10, 8), torch.zeros(1, 8)):
        assert bool(started(init, data, size=6)(features(5, 8)).isfinite().all())


def test_random_leaves_the_head_as_it_was_made() -> None:
    data = features(20, 8)
    made = models.create_head("linear", num_features=8, size=4, seed=3)
    left = started("random", data, size=4, seed=3)
    assert torch.equal(left.get_parameter("projection.weight"), made.get_parameter("projection.weight"))


def test_the_seed_decides_what_the_features_leave_open_and_nothing_else() -> None:
    data = features(50, 8)

    def weight(init: str, seed: int) -> Tensor:
        return started(init, data, size=4, seed=seed).get_parameter("projection.weight")

    assert torch.equal(weight("pca", 1), weight("pca", 2))
    one, same, other = (weight("orthogonal", seed) for seed in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_directions_depend_on_features_and_not_on_the_sign_that_a_library_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = features(50, 8)
    before = principal_directions(data).axes
    eigh = torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: (eigh(matrix)[0], -eigh(matrix)[1]))
    assert torch.equal(principal_directions(data).axes, before)


@pytest.mark.parametrize(
    ("kind", "init", "size", "message"),
    [
        ("linear", "pac", 4, 'unknown head.init "pac"; did you mean "pca"'),
        (
            "none",
            "pca",
            8,
            "head.init pca needs a projection, but head.kind is none; set head.init to random",
        ),
        ("mlp", "pca", 5, "needs twice as many hidden units as head.size 5, but there are 8"),
    ],
)
def test_a_start_that_cannot_be_is_one_clear_line(kind: str, init: str, size: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        started(init, features(20, 8), size=size, kind=kind)


def test_an_mlp_that_starts_as_pca_also_learns_with_its_other_hidden_units() -> None:
    data = features(100, 12)
    head = started("pca", data, size=3, kind="mlp")
    head(data).square().sum().backward()
    gradient = head.get_parameter("projection.2.weight").grad
    assert gradient is not None
    assert int((gradient.abs().sum(0) > 0).sum()) > 2 * 3
