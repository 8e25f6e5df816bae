"""Test cases of the embedding losses: options with oracles, and unusual batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from tests.oracles import losses_embedding as oracle
from torch import Tensor, nn

from levelfield import losses
from levelfield.miners import Pairs, Triplets


@dataclass(frozen=True)
class Case:
    """Loss with options, and the slow function with its expected value."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def create(self) -> nn.Module:
        return losses.create(self.name, **self.options)

    def expected(self, x: Tensor, y: Tensor, tuples: Pairs | Triplets | None = None) -> Tensor:
        function: Callable[..., Tensor] = getattr(oracle, self.name)
        return function(x, y, tuples, **self.options)

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{k}={v}" for k, v in self.options.items())])


CASES = [
    Case("contrastive"),
    Case("contrastive", {"pos_margin": -0.2, "neg_margin": 1.3, "reduction": "mean"}),
    Case("contrastive", {"pos_margin": 0.3, "normalize": False, "reduction": "sum"}),
    Case("triplet"),
    Case("triplet", {"margin": 0.05, "reduction": "mean"}),
    Case("triplet", {"margin": -0.3, "normalize": False, "reduction": "sum"}),
    Case("triplet", {"smooth": True}),
    Case("triplet", {"squared": True, "margin": 0.4}),
    Case("ntxent"),
    Case("ntxent", {"temperature": 0.0002}),
    Case("ntxent", {"temperature": 1.0, "reduction": "sum"}),
    Case("supcon"),
    Case("supcon", {"temperature": 0.0002, "reduction": "sum"}),
    Case("embedding_expansion"),
    Case("embedding_expansion", {"points": 0, "margin": 0.0}),
    Case("embedding_expansion", {"points": 3, "margin": 0.5}),
    Case("margin", {"beta": 1.25}),
    Case("margin", {"margin": -0.02, "beta": 0.625, "nu": 0.1, "reduction": "mean"}),
    Case("fastap"),
    Case("fastap", {"num_bins": 27, "reduction": "sum"}),
    Case("snr_contrastive"),
    Case("snr_contrastive", {"pos_margin": 0.3, "regularizer_weight": 0.0, "normalize": False}),
    Case("snr_triplet"),
    Case("snr_triplet", {"margin": 1.0, "normalize": False, "reduction": "mean"}),
    Case("multi_similarity"),
    Case("multi_similarity", {"alpha": 0.01, "beta": 156.0, "base": 0.8, "reduction": "sum"}),
    Case("angular"),
    Case("angular", {"alpha": 60.0, "npair_weight": 0.0, "angular_weight": 1.0, "l2": 0.0}),
    Case("npair"),
    Case("npair", {"pairs": "class", "l2": 0.02}),
    Case("lifted_structure"),
    Case("lifted_structure", {"margin": 0.5, "normalize": False, "reduction": "sum"}),
    Case("generalized_lifted"),
    Case("generalized_lifted", {"margin": 0.2, "l2": 0.0, "normalize": True, "reduction": "mean_nonzero"}),
    Case("histogram"),
    Case("histogram", {"num_bins": 11}),
    Case("quadruplet"),
    Case("quadruplet", {"margin_1": 0.1, "margin_2": 0.2, "normalize": False, "reduction": "mean"}),
    Case("tuplet_margin"),
    Case("tuplet_margin", {"margin": 20.0, "scale": 4.0, "reduction": "sum"}),
    Case("circle"),
    Case("circle", {"m": 0.25, "gamma": 4.0, "reduction": "sum"}),
    Case("nca"),
    Case("nca", {"softmax_scale": 30.0, "normalize": False}),
    Case("smooth_ap"),
    Case("smooth_ap", {"temperature": 0.1, "reduction": "sum"}),
    Case("smooth_ap", {"rank_anchor": False}),
    Case("recall_at_k"),
    Case("recall_at_k", {"k": (1, 3), "rank_temperature": 0.1}),
    Case("siglip"),
    Case("siglip", {"scale": 40.0, "bias": -3.0, "learn": False, "reduction": "sum"}),
    Case("ranked_list"),
    Case("ranked_list", {"alpha": 1.5, "positive_temperature": 3.0, "balance": 0.2, "reduction": "sum"}),
    Case("roadmap"),
    Case("roadmap", {"temperature": 0.1, "delta": 0.2, "steepness": 7.0, "calibration": 0.1}),
    Case("pnp"),
    Case("pnp", {"alpha": 4.0, "temperature": 0.1, "reduction": "sum"}),
    Case("pnp", {"variant": "O"}),
    Case("pnp", {"variant": "Iu"}),
    Case("pnp", {"variant": "Ib", "b": 3.0}),
    Case("pnp", {"variant": "Ds"}),
    Case("contextual"),
    Case("contextual", {"neighbors": 2, "epsilon": 0.4, "contextual_weight": 0.9, "mean_similarity": 0.1}),
    Case("hyperbolic"),
    Case("hyperbolic", {"temperature": 1.0, "curvature": 1.0, "clip_radius": 1.5, "reduction": "sum"}),
]

DETACHED = {"circle", "ranked_list", "contextual"}
"""Losses that stop or assign the gradient of a part: it is not the slope of the value."""

RANKING = {"fastap", "smooth_ap", "recall_at_k", "roadmap", "pnp", "contextual", "embedding_expansion"}
"""Losses that take no miner."""

MINED = [case for case in CASES if case.name not in RANKING and case.options.get("pairs") != "class"]

LABELS = {
    "balanced": [0, 0, 1, 1, 2, 2, 3, 3],
    "unbalanced": [5, 5, 5, 5, 5, 2, 2, 9],
    "shuffled": [7, 1, 7, 0, 1, 7, 0, 3],
    "one class": [4, 4, 4, 4],
    "no positives": [0, 1, 2, 3],
    "one sample": [6],
    "two samples": [1, 1],
}


def batch(kind: str, *, seed: int = 0, size: int = 5) -> tuple[Tensor, Tensor]:
    """Float64 embeddings (B x size) that require gradients, and labels (B)."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.tensor(LABELS.get(kind, LABELS["balanced"]))
    x = torch.randn(len(labels), size, dtype=torch.float64, generator=generator)
    if kind == "duplicates":
        x[1], x[5], x[6] = x[0], x[2], x[0]
    elif kind == "collapsed":
        x = x[:1].repeat(len(labels), 1)
    elif kind == "zeros":
        x = torch.zeros_like(x)
    elif kind == "opposite":
        x = torch.cat([x[:1], -x[:1]]).repeat(len(labels) // 2, 1)
    return x.requires_grad_(), labels


def random_triplets(labels: Tensor, number: int, *, seed: int = 0) -> Triplets:
    """Triplets with repetitions."""
    every = oracle.triplets(labels, None)
    pick = torch.randint(len(every), (number,), generator=torch.Generator().manual_seed(seed))
    return Triplets(*torch.tensor(every)[pick].unbind(1))


def random_pairs(labels: Tensor, number: int, *, seed: int = 0) -> Pairs:
    """Different positive pairs and different negative pairs."""
    generator = torch.Generator().manual_seed(seed)
    columns: list[Tensor] = []
    for pairs in (oracle.positive_pairs(labels, None), oracle.negative_pairs(labels, None)):
        pick = torch.randperm(len(pairs), generator=generator)[:number]
        columns += torch.tensor(pairs)[pick].unbind(1)
    return Pairs(*columns)


def no_triplets() -> Triplets:
    return Triplets(*(torch.empty(0, dtype=torch.int64) for _ in range(3)))


def no_pairs() -> Pairs:
    return Pairs(*(torch.empty(0, dtype=torch.int64) for _ in range(4)))
