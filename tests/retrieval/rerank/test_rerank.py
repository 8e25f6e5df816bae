"""Every re-ranking equals its slow oracle, and the scores of rankings equal those of ``evaluate``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import rerank as oracle
from torch import Tensor

from levelfield import metrics
from levelfield.core.errors import UsageError
from levelfield.retrieval import rerank


def clusters(count: int = 40, width: int = 8, *, seed: int = 0, noise: float = 0.6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 5
    centers = torch.randn(5, width, generator=generator)
    vectors = centers[labels] + noise * torch.randn(count, width, generator=generator)
    return torch.nn.functional.normalize(vectors, dim=1), labels


@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("neighbors", [1, 4, 100])
def test_query_expansion(alpha: float, neighbors: int) -> None:
    (gallery, _), (queries, _) = clusters(30), clusters(7, seed=1)
    got = rerank.expand_queries(queries, gallery, neighbors=neighbors, alpha=alpha).numpy()
    exact = gallery.numpy()
    wanted = [oracle.expand(query, exact, neighbors, alpha) for query in queries.numpy()]
    np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_database_augmentation(alpha: float) -> None:
    gallery, _ = clusters()
    got = rerank.augment_database(gallery, neighbors=3, alpha=alpha).numpy()
    np.testing.assert_allclose(got, oracle.augment(gallery.numpy(), 3, alpha), atol=1e-5)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("size", [3, 8])
def test_whitening_up_to_the_sign_of_its_directions(power: float, size: int) -> None:
    fitted_to, _ = clusters(60, seed=3)
    vectors, _ = clusters(10, seed=4)
    got = rerank.fit_whitening(fitted_to, size=size, power=power)(vectors).numpy()
    wanted = oracle.whiten(vectors.double().numpy(), fitted_to.double().numpy(), size, power)
    np.testing.assert_allclose(np.abs(got), np.abs(wanted), atol=1e-4)
    np.testing.assert_allclose(got @ got.T, wanted @ wanted.T, atol=1e-4)


def test_whitened_data_has_equal_spread_in_all_directions_before_it_is_normalized() -> None:
    vectors, _ = clusters(500, seed=5)
    fitted = rerank.fit_whitening(vectors)
    turned = (vectors - fitted.mean) @ fitted.projection
    torch.testing.assert_close(turned.T @ turned / len(turned), torch.eye(8), atol=1e-3, rtol=0)


def test_a_direction_without_spread_has_no_weight() -> None:
    vectors = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    vectors[:, 2] = 1.0
    assert torch.isfinite(rerank.fit_whitening(vectors, size=3)(vectors)).all()


@pytest.mark.parametrize(("k1", "k2", "weight"), [(6, 3, 0.3), (5, 1, 0.0), (4, 4, 0.7), (60, 2, 0.5)])
@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("depth", [12, None])
def test_k_reciprocal(k1: int, k2: int, weight: float, exclude_self: bool, depth: int | None) -> None:
    gallery, _ = clusters(30, seed=6)
    queries = gallery if exclude_self else clusters(5, seed=7)[0]
    everyone = gallery if exclude_self else torch.cat([queries, gallery])
    first = 0 if exclude_self else len(queries)
    got = rerank.rerank_k_reciprocal(
        queries, gallery, count=12, depth=depth, k1=k1, k2=k2, weight=weight, exclude_self=exclude_self
    ).numpy()
    among = depth or len(gallery)
    exact = everyone.double().numpy()
    for query in range(0, len(queries), 4):
        near, _ = rerank.nearest(queries[query : query + 1], gallery, among + 1)
        rows = [int(row) + first for row in near[0] if not (exclude_self and row == query)][:among]
        distances = oracle.k_reciprocal(exact, query, rows, k1=min(k1, len(exact) - 1), k2=k2, weight=weight)
        ranked = [distances.pop(int(row) + first) for row in got[query]]
        assert (np.diff(ranked) >= -1e-6).all()  # ties in float32 may be in any order
        assert len(distances) == len(rows) - 12  # no candidate is in the new ranking twice
        assert all(left >= ranked[-1] - 1e-6 for left in distances.values())


@pytest.mark.parametrize("exclude_self", [True, False])
def test_diffusion(exclude_self: bool) -> None:
    gallery, _ = clusters(30, seed=8)
    queries = gallery if exclude_self else clusters(5, seed=9)[0]
    got = rerank.rerank_diffusion(
        queries, gallery, count=10, neighbors=5, gamma=3.0, flow=0.8, exclude_self=exclude_self
    )
    limited = rerank.rerank_diffusion(
        queries, gallery, count=10, depth=10, neighbors=5, gamma=3.0, flow=0.8, exclude_self=exclude_self
    )
    plain, _ = rerank.nearest(queries, gallery, 10, exclude_self=exclude_self)
    assert torch.equal(limited.sort(1).values, plain.sort(1).values)
    exact = gallery.double().numpy()
    for query in range(len(queries)):
        skip = query if exclude_self else None
        arrived = oracle.diffusion(
            queries[query].double().numpy(), exact, neighbors=5, gamma=3.0, flow=0.8, skip=skip
        )
        # conjugate gradients stop early: the order must be the exact one up to what they leave out
        assert (np.diff(arrived[got[query].numpy()]) <= 1e-5).all()
        assert (np.diff(arrived[limited[query].numpy()]) <= 1e-5).all()
        left = np.setdiff1d(np.arange(len(gallery)), [*got[query].tolist(), query if exclude_self else -1])
        assert arrived[left].max() <= arrived[got[query].numpy()].min() + 1e-5


def test_views_are_added_up() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (2, 3, 8, 6), generator=generator, dtype=torch.uint8)
    weights = torch.randn(3, 8, 6, generator=generator)

    def network(batch: Tensor) -> Tensor:
        return torch.nn.functional.interpolate(batch.float(), (8, 6)).mul(weights).sum(3).flatten(1)

    def unit(vectors: Tensor) -> Tensor:
        return torch.nn.functional.normalize(vectors, dim=1)

    half = torch.nn.functional.interpolate(images, size=(4, 3), mode="bilinear", antialias=True)
    views = (images, images.flip(-1), half, half.flip(-1))
    wanted = unit(torch.stack([unit(network(view)) for view in views]).sum(0))
    got = rerank.embed_views(network, images, scales=(1.0, 0.5), flip=True)
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("exclude_self", [True, False])
def test_scores_of_a_plain_ranking_are_those_of_evaluate(exclude_self: bool) -> None:
    gallery, gallery_labels = clusters(41, seed=10, noise=1.5)
    queries, labels = (gallery, gallery_labels) if exclude_self else clusters(9, seed=11, noise=1.5)
    names = ("precision_at_1", "map_at_r", "map_at_10", "map_at_100", "r_precision")
    depth = rerank.required_depth(names, labels, gallery_labels, exclude_self=exclude_self)
    rows, _ = rerank.nearest(queries, gallery, depth, exclude_self=exclude_self)
    got = rerank.score_ranking(rows, labels, gallery_labels, names, exclude_self=exclude_self)
    given: dict[str, Any] = {} if exclude_self else {"gallery": gallery, "gallery_labels": gallery_labels}
    wanted = metrics.evaluate(queries, labels, metrics=names, per_query=True, **given)
    for name in names:
        np.testing.assert_allclose(got[name], wanted.per_query[name], atol=1e-12)


def test_a_ranking_too_short_for_a_metric_is_rejected() -> None:
    gallery, labels = clusters()
    rows, _ = rerank.nearest(gallery, gallery, 2, exclude_self=True)
    with pytest.raises(UsageError, match="map_at_r cannot be computed from rankings of 2 rows"):
        rerank.score_ranking(rows, labels, labels, ["map_at_r"], exclude_self=True)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda v: rerank.expand_queries(v, v, neighbors=0), "empty"),
        (lambda v: rerank.expand_queries(v, v, neighbors=2, alpha=-1), "alpha is -1"),
        (lambda v: rerank.fit_whitening(v, size=9), "cannot keep 9 components; choose at most 8"),
        (lambda v: rerank.fit_whitening(v, power=2.0), "between 0 and 1"),
        (lambda v: rerank.rerank_k_reciprocal(v, v, count=3, k1=2, k2=3), "1 <= k2 <= k1"),
        (lambda v: rerank.rerank_k_reciprocal(v, v, count=3, weight=2), "between 0 and 1"),
        (lambda v: rerank.rerank_diffusion(v, v, count=3, flow=1.0), "flow < 1"),
        (lambda v: rerank.embed_views(lambda x: x, v, scales=()), "at least one"),
    ],
)
def test_bad_parameters_get_one_line(call: Callable[[torch.Tensor], object], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        call(clusters()[0])
