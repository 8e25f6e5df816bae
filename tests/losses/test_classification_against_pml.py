"""The classification losses beside pytorch-metric-learning: equal where the definition is, and where not."""

from __future__ import annotations

import pytest
import torch

from levelfield import losses

pml_losses = pytest.importorskip("pytorch_metric_learning.losses")
pml_regularizers = pytest.importorskip("pytorch_metric_learning.regularizers")

CLASSES, SIZE, CENTERS = 5, 8, 3


def batch(seed=0, count=12):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(count, SIZE, generator=generator, dtype=torch.float64)
    return embeddings, torch.randint(CLASSES, (count,), generator=generator)


def sparse_centers():
    return pml_regularizers.SparseCentersRegularizer(num_classes=CLASSES, centers_per_class=CENTERS)


PAIRS = [
    ("normalized_softmax", {"temperature": 0.1}, "NormalizedSoftmaxLoss", {"temperature": 0.1}, "W"),
    (
        "proxy_nca",
        {"softmax_scale": 8.0, "include_positive": True},
        "ProxyNCALoss",
        {"softmax_scale": 8.0},
        "proxies",
    ),
    ("proxy_nca_pp", {"temperature": 0.125}, "ProxyNCALoss", {"softmax_scale": 8.0}, "proxies"),
    ("cosface", {"margin": 0.4, "scale": 30.0}, "CosFaceLoss", {"margin": 0.4, "scale": 30.0}, "W"),
    ("arcface", {"margin": 28.6, "scale": 30.0}, "ArcFaceLoss", {"margin": 28.6, "scale": 30.0}, "W"),
    ("arcface", {"margin": 100.0, "scale": 3.0}, "ArcFaceLoss", {"margin": 100.0, "scale": 3.0}, "W"),
    (
        "subcenter_arcface",
        {"margin": 20.0, "scale": 30.0, "sub_centers": CENTERS},
        "SubCenterArcFaceLoss",
        {"margin": 20.0, "scale": 30.0, "sub_centers": CENTERS},
        "W",
    ),
    ("sphereface", {"margin": 4, "scale": 5.0}, "SphereFaceLoss", {"margin": 4, "scale": 5.0}, "W"),
    (
        "soft_triple",
        {"la": 20.0, "gamma": 0.1, "reg_weight": 0.0, "margin": 0.2, "centers": CENTERS},
        "SoftTripleLoss",
        {"la": 20.0, "gamma": 0.1, "margin": 0.2, "centers_per_class": CENTERS},
        "fc",
    ),
    (
        "proxy_anchor",
        {"margin": 0.1, "alpha": 32.0},
        "ProxyAnchorLoss",
        {"margin": 0.1, "alpha": 32.0},
        "proxies",
    ),
]


def both(name, options, peer, peer_options, parameter):
    ours = losses.create(name, num_classes=CLASSES, embedding_size=SIZE, **options).double()
    theirs = getattr(pml_losses, peer)(num_classes=CLASSES, embedding_size=SIZE, **peer_options)
    weights = getattr(theirs, parameter)
    weights.data = (
        ours.weights.detach().T.clone() if parameter in ("W", "fc") else ours.weights.detach().clone()
    )
    return ours, theirs, weights


@pytest.mark.parametrize(("name", "options", "peer", "peer_options", "parameter"), PAIRS)
def test_value_and_gradients_are_equal(name, options, peer, peer_options, parameter):
    ours, theirs, weights = both(name, options, peer, peer_options, parameter)
    embeddings, labels = batch()
    embeddings.requires_grad_()
    value, expected = ours(embeddings, labels), theirs(embeddings, labels)
    torch.testing.assert_close(value, expected)
    gradient, own = torch.autograd.grad(value, [embeddings, ours.weights])
    wanted, peers = torch.autograd.grad(expected, [embeddings, weights])
    torch.testing.assert_close(gradient, wanted)
    torch.testing.assert_close(own, peers.T if parameter in ("W", "fc") else peers)


def test_soft_triple_adds_their_regularizer_up_to_the_constant_under_the_root():
    options = {"la": 20.0, "gamma": 0.1, "margin": 0.2}
    ours, theirs, _ = both(
        "soft_triple",
        {**options, "reg_weight": 0.3, "centers": CENTERS},
        "SoftTripleLoss",
        {
            **options,
            "centers_per_class": CENTERS,
            "weight_regularizer": sparse_centers(),
            "weight_reg_weight": 0.3,
        },
        "fc",
    )
    embeddings, labels = batch()
    torch.testing.assert_close(ours(embeddings, labels), theirs(embeddings, labels), rtol=1e-5, atol=1e-5)


def test_proxy_nca_leaves_the_own_proxy_out_of_the_denominator_and_theirs_does_not():
    ours, theirs, _ = both(
        "proxy_nca", {"softmax_scale": 8.0}, "ProxyNCALoss", {"softmax_scale": 8.0}, "proxies"
    )
    embeddings, labels = batch()
    assert ours(embeddings, labels) < theirs(embeddings, labels)
    on_the_proxy = ours.weights.detach()[labels]
    assert ours(on_the_proxy, labels) < 0 < theirs(on_the_proxy, labels)


def test_arcface_gradient_is_right_at_angles_where_their_arccos_cuts_it():
    """A thousandth of a degree from the weight the cosine is 1 in float32, but the chord is not 0."""
    labels, near = torch.tensor([0]), torch.tensor([[1.0, 1.7e-5]])

    def gradient(loss, dtype):
        x = near.to(dtype).requires_grad_()
        (result,) = torch.autograd.grad(loss(x, labels), x)
        return result.double()

    ours = losses.create("arcface", num_classes=2, embedding_size=2, margin=30.0, scale=1.0)
    theirs = pml_losses.ArcFaceLoss(num_classes=2, embedding_size=2, margin=30.0, scale=1.0)
    ours.weights.data, theirs.W.data = torch.eye(2), torch.eye(2)
    exact = gradient(theirs, torch.float64)
    theirs.W.data = torch.eye(2)
    torch.testing.assert_close(gradient(ours, torch.float32), exact, rtol=1e-3, atol=1e-6)
    assert (gradient(theirs, torch.float32) - exact).norm() > 0.1 * exact.norm()
