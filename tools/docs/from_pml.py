"""Differences between our losses and pytorch-metric-learning's: the table of docs/from-pml.md.

``python tools/docs/from_pml.py`` prints it as Markdown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from pytorch_metric_learning import distances, losses, regularizers
from torch import Tensor

import levelfield as lf

SAMPLES, CLASSES, SIZE = 64, 16, 32
RAW = {"distance": distances.LpDistance(normalize_embeddings=False)}


@dataclass(frozen=True)
class Peer:
    """Loss of pytorch-metric-learning, with the options that make ours the same."""

    theirs: str
    ours: str
    make: Callable[[], Any]
    options: dict[str, Any] = field(default_factory=dict)
    weights: str = ""  # attribute of their class weights; "W" is transposed


def _classes(name: str, **options: Any) -> Callable[[], Any]:
    return lambda: getattr(losses, name)(num_classes=CLASSES, embedding_size=SIZE, **options)


PEERS = (
    Peer("ContrastiveLoss", "contrastive", losses.ContrastiveLoss),
    Peer("TripletMarginLoss", "triplet", lambda: losses.TripletMarginLoss(margin=0.2), {"margin": 0.2}),
    Peer("NTXentLoss", "ntxent", lambda: losses.NTXentLoss(0.1), {"temperature": 0.1}),
    Peer("SupConLoss", "supcon", lambda: losses.SupConLoss(0.1), {"temperature": 0.1}),
    Peer("MarginLoss", "margin", lambda: losses.MarginLoss(0.2, beta=1.2), {"margin": 0.2, "beta": 1.2}),
    Peer("FastAPLoss", "fastap", lambda: losses.FastAPLoss(10), {"num_bins": 10}),
    Peer(
        "SignalToNoiseRatioContrastiveLoss",
        "snr_contrastive",
        lambda: losses.SignalToNoiseRatioContrastiveLoss(
            embedding_regularizer=regularizers.ZeroMeanRegularizer(), embedding_reg_weight=0.005
        ),
        {"regularizer_weight": 0.005},
    ),
    Peer("MultiSimilarityLoss", "multi_similarity", losses.MultiSimilarityLoss),
    Peer("LiftedStructureLoss", "lifted_structure", losses.LiftedStructureLoss),
    Peer(
        "GeneralizedLiftedStructureLoss",
        "generalized_lifted",
        lambda: losses.GeneralizedLiftedStructureLoss(**RAW),
        {"l2": 0.0},
    ),
    Peer("HistogramLoss", "histogram", lambda: losses.HistogramLoss(n_bins=64), {"num_bins": 65}),
    Peer("TupletMarginLoss", "tuplet_margin", losses.TupletMarginLoss),
    Peer("CircleLoss", "circle", losses.CircleLoss),
    Peer("NCALoss", "nca", losses.NCALoss),
    Peer("SmoothAPLoss", "smooth_ap", losses.SmoothAPLoss),
    Peer(
        "NPairsLoss",
        "npair",
        lambda: losses.NPairsLoss(distance=distances.DotProductSimilarity(normalize_embeddings=False)),
        {"pairs": "class", "l2": 0.0},
    ),
    Peer(
        "AngularLoss",
        "angular",
        lambda: losses.AngularLoss(45),
        {"npair_weight": 0.0, "angular_weight": 1.0, "l2": 0.0},
    ),
    Peer("NormalizedSoftmaxLoss", "normalized_softmax", _classes("NormalizedSoftmaxLoss"), weights="W"),
    Peer(
        "CosFaceLoss",
        "cosface",
        _classes("CosFaceLoss", margin=0.35, scale=64),
        {"margin": 0.35, "scale": 64.0},
        "W",
    ),
    Peer(
        "ArcFaceLoss",
        "arcface",
        _classes("ArcFaceLoss", margin=28.6, scale=64),
        {"margin": 28.6, "scale": 64.0},
        "W",
    ),
    Peer(
        "ProxyNCALoss",
        "proxy_nca",
        _classes("ProxyNCALoss", softmax_scale=3),
        {"softmax_scale": 3.0, "include_positive": True},
        "proxies",
    ),
    Peer("ProxyAnchorLoss", "proxy_anchor", _classes("ProxyAnchorLoss"), weights="proxies"),
)


def batch() -> tuple[Tensor, Tensor]:
    """Return embeddings (64 x 32) in float64 with some class structure, and labels of 16 classes."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(CLASSES).repeat_interleave(SAMPLES // CLASSES)
    centers = torch.randn(CLASSES, SIZE, generator=generator, dtype=torch.float64)
    noise = torch.randn(SAMPLES, SIZE, generator=generator, dtype=torch.float64)
    return (centers[labels] + noise).requires_grad_(True), labels


def difference(peer: Peer) -> tuple[float, float]:
    """Return the differences of value and gradient, relative to theirs."""
    x, labels = batch()
    theirs = peer.make()
    shape = {"num_classes": CLASSES, "embedding_size": SIZE} if peer.weights else {}
    ours = lf.losses.create(peer.ours, **shape, **peer.options)
    if peer.weights:
        theirs, ours = theirs.double(), ours.double()
        given = getattr(theirs, peer.weights).detach()
        ours.weights.data = (given.T if peer.weights == "W" else given).clone()
    values = [ours(x, labels), theirs(x, labels)]
    mine, wanted = (torch.autograd.grad(value, x)[0] for value in values)
    value = abs(float(values[0]) - float(values[1])) / abs(float(values[1]))
    return value, float((mine - wanted).norm() / wanted.norm())


def shown(value: float) -> str:
    """Return a difference as text; "0" if rounding explains it."""
    return "0" if value < 1e-9 else f"{value:.0e}" if value < 1e-3 else f"{value:.3f}"


def table() -> list[str]:
    """Return the rows of the table."""
    rows = ["| theirs | ours | value | gradient |", "|---|---|---|---|"]
    for peer in PEERS:
        value, gradient = difference(peer)
        options = ", ".join(f"{name}={setting!r}" for name, setting in peer.options.items())
        ours = f"`{peer.ours}`" + (f" ({options})" if options else "")
        rows.append(f"| `{peer.theirs}` | {ours} | {shown(value)} | {shown(gradient)} |")
    return rows


if __name__ == "__main__":
    print("\n".join(table()))
