"""Classification losses equal those of pytorch-metric-learning, except for known differences."""

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
    start = ours.get_parameter("weights").detach().clone()
    weights.data = start.T.contiguous() if parameter in ("W", "fc") else start
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
