"""Embedding losses equal those of pytorch-metric-learning with the same definition.

test_differences_from_pml shows the differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.oracles.losses_embedding_cases import Case, batch, random_pairs, random_triplets
from torch import Tensor

from levelfield.miners import MinedTuples

peer = pytest.importorskip("pytorch_metric_learning")
from pytorch_metric_learning import distances, reducers, regularizers  # noqa: E402 - if it is installed
from pytorch_metric_learning import losses as peers  # noqa: E402 - if it is installed

RAW_DOT = distances.DotProductSimilarity(normalize_embeddings=False)
RAW = {"distance": distances.LpDistance(normalize_embeddings=False)}


def theirs(loss: Callable[..., Tensor], x: Tensor, y: Tensor, tuples: MinedTuples | None) -> Tensor:
    return loss(x, y, None if tuples is None else tuples.indices)


def zero_mean(weight: float) -> dict[str, Any]:
    return {"embedding_regularizer": regularizers.ZeroMeanRegularizer(), "embedding_reg_weight": weight}


SAME = [
    (Case("contrastive", {"pos_margin": 0.1, "neg_margin": 1.2}), peers.ContrastiveLoss(0.1, 1.2)),
    (Case("triplet", {"margin": 0.15}), peers.TripletMarginLoss(0.15)),
    (Case("triplet", {"smooth": True}), peers.TripletMarginLoss(0.2, smooth_loss=True)),
    (Case("triplet", {"normalize": False}), peers.TripletMarginLoss(0.2, **RAW)),
    (Case("triplet", {"reduction": "mean"}), peers.TripletMarginLoss(0.2, reducer=reducers.MeanReducer())),
    (Case("ntxent", {"temperature": 0.3}), peers.NTXentLoss(0.3)),
    (Case("supcon"), peers.SupConLoss(0.1)),
    (Case("margin", {"beta": 1.25}), peers.MarginLoss(0.2, beta=1.25)),
    (Case("margin", {"beta": 1.25, "nu": 0.5}), peers.MarginLoss(0.2, nu=0.5, beta=1.25, learn_beta=True)),
    (Case("fastap", {"num_bins": 17}), peers.FastAPLoss(17)),
    (
        Case("snr_contrastive", {"pos_margin": 0.3, "neg_margin": 2.5, "regularizer_weight": 0.1}),
        peers.SignalToNoiseRatioContrastiveLoss(pos_margin=0.3, neg_margin=2.5, **zero_mean(0.1)),
    ),
    (
        Case("snr_triplet", {"regularizer_weight": 0.1}),
        peers.TripletMarginLoss(0.2, distance=distances.SNRDistance(), **zero_mean(0.1)),
    ),
    (Case("multi_similarity", {"alpha": 3.0, "beta": 40.0}), peers.MultiSimilarityLoss(3.0, 40.0, 0.5)),
    (Case("npair", {"pairs": "class", "l2": 0.0}), peers.NPairsLoss(distance=RAW_DOT)),
    (Case("lifted_structure"), peers.LiftedStructureLoss()),
    (Case("generalized_lifted", {"l2": 0.0}), peers.GeneralizedLiftedStructureLoss(**RAW)),
    (Case("histogram"), peers.HistogramLoss(n_bins=64)),
    (Case("tuplet_margin"), peers.TupletMarginLoss()),
    (Case("circle"), peers.CircleLoss()),
    (Case("nca", {"softmax_scale": 3.0}), peers.NCALoss(3.0)),
    *(
        (Case("pnp", {"variant": each, "alpha": 1.0}), peers.PNPLoss(variant=each))
        for each in peers.PNPLoss.VARIANTS
    ),
]
# Theirs weight samples by how often they were mined, or list negatives once for every triplet.
OTHER_IDEA_OF_TUPLES = {"fastap", "nca", "npair", "ntxent", "lifted_structure", "tuplet_margin", "histogram"}
OTHER_IDEA_OF_TUPLES |= {"supcon", "pnp"}


@pytest.mark.parametrize(("case", "loss"), SAME, ids=[str(case) for case, _ in SAME])
def test_same_value_and_gradient(case: Case, loss: Callable[..., Tensor]) -> None:
    x, y = batch("balanced", size=8)
    choices: list[MinedTuples | None] = [None]
    if case.name not in OTHER_IDEA_OF_TUPLES:
        choices += [random_triplets(y, 15), random_pairs(y, 7)]
    for tuples in choices:
        if case.name == "generalized_lifted" and tuples is not None:
            continue  # counts anchors without negatives
        value, wanted = case.create()(x, y, tuples), theirs(loss, x, y, tuples)
        torch.testing.assert_close(value, wanted, rtol=1e-6, atol=1e-6, check_dtype=False)
        torch.testing.assert_close(
            torch.autograd.grad(value, x), torch.autograd.grad(wanted, x), rtol=1e-5, atol=1e-6
        )
