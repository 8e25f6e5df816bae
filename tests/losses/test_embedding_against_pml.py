"""Where pytorch-metric-learning has the same definition, the numbers are the same; where not, it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield import losses
from levelfield.miners import Pairs, Triplets, Tuples
from oracles.losses_embedding_cases import Case, batch, random_pairs, random_triplets

peer = pytest.importorskip("pytorch_metric_learning")
from pytorch_metric_learning import distances, reducers, regularizers  # noqa: E402
from pytorch_metric_learning import losses as peers  # noqa: E402

RAW_DOT = distances.DotProductSimilarity(normalize_embeddings=False)
RAW = {"distance": distances.LpDistance(normalize_embeddings=False)}


def theirs(loss: Callable[..., Tensor], x: Tensor, y: Tensor, tuples: Tuples | None) -> Tensor:
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
]
# Theirs weigh by how often a sample was mined, or list negatives once for every triplet.
OTHER_IDEA_OF_TUPLES = {"fastap", "nca", "npair", "ntxent", "lifted_structure", "tuplet_margin", "histogram"}


@pytest.mark.parametrize(("case", "loss"), SAME, ids=[str(case) for case, _ in SAME])
def test_same_value_and_gradient(case: Case, loss: Callable[..., Tensor]) -> None:
    x, y = batch("balanced", size=8)
    choices: list[Tuples | None] = [None]
    if case.name not in OTHER_IDEA_OF_TUPLES:
        choices += [random_triplets(y, 15), random_pairs(y, 7)]
    for tuples in choices:
        if case.name == "generalized_lifted" and tuples is not None:
            continue  # counts anchors without negatives, see below
        value, wanted = case.create()(x, y, tuples), theirs(loss, x, y, tuples)
        torch.testing.assert_close(value, wanted, rtol=1e-6, atol=1e-6, check_dtype=False)
        torch.testing.assert_close(
            torch.autograd.grad(value, x), torch.autograd.grad(wanted, x), rtol=1e-5, atol=1e-6
        )


def test_the_angular_part_is_the_same_for_normalised_embeddings() -> None:
    x, y = batch("balanced")
    x = torch.nn.functional.normalize(x)
    ours = losses.create("angular", alpha=40.0, npair_weight=0.0, angular_weight=1.0, l2=0.0)
    torch.testing.assert_close(ours(x, y), peers.AngularLoss(40.0)(x, y), check_dtype=False)
    scaled = x * torch.linspace(1, 3, len(x))[:, None]
    torch.testing.assert_close(ours(scaled, y), ours(x, y))
    assert not torch.isclose(peers.AngularLoss(40.0)(scaled, y), peers.AngularLoss(40.0)(x, y))


def test_one_pair_has_a_loss_here_and_none_there() -> None:
    x, y = batch("balanced")
    one = Pairs(*(torch.tensor([i]) for i in (0, 1, 0, 2)))
    assert losses.create("contrastive")(x, y, one) > 0
    assert theirs(peers.ContrastiveLoss(), x, y, one) == 0


def test_a_cold_ntxent_keeps_its_gradient_here_and_loses_it_there() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]], requires_grad=True)
    y = torch.tensor([0, 0, 1])
    value, capped = losses.create("ntxent", temperature=0.0002)(x, y), peers.NTXentLoss(0.0002)(x, y)
    assert value > 2000
    assert capped < 100
    assert torch.autograd.grad(value, x)[0].abs().max() > 100
    assert torch.autograd.grad(capped, x)[0].abs().max() == 0


def test_supcon_without_negatives_follows_the_formula_here_and_is_zero_there() -> None:
    x, y = batch("one class")
    assert losses.create("supcon")(x, y) > 0
    assert peers.SupConLoss()(x, y) == 0


def test_the_hardest_anchors_count_in_nca_here_and_not_there() -> None:
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.1], [-1.0, 0.1], [-1.0, 0.05]])
    y = torch.tensor([0, 0, 1, 2, 2])
    assert losses.create("nca", softmax_scale=100.0)(x, y) > 100
    assert peers.NCALoss(100.0)(x, y) < 1


def test_an_anchor_without_positives_counts_in_generalised_lifted_structure_there_only() -> None:
    x, y = batch("no positives")
    assert losses.create("generalized_lifted", l2=0.0)(x, y) == 0
    assert peers.GeneralizedLiftedStructureLoss(neg_margin=5.0, **RAW)(x, y) > 0


def test_a_negative_pair_of_two_loners_counts_in_the_histogram_here_only() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.1], [-1.0, 0.0]])
    y = torch.tensor([0, 0, 1, 2])
    ours, other = losses.create("histogram")(x, y), peers.HistogramLoss(n_bins=64)(x, y)
    assert ours > other  # the two loners are alike


def test_coinciding_positives_have_a_finite_gradient_in_tuplet_margin_here_only() -> None:
    x, y = batch("collapsed")
    x = x.detach().float().requires_grad_()
    assert torch.autograd.grad(losses.create("tuplet_margin")(x, y), x)[0].isfinite().all()
    assert not torch.autograd.grad(peers.TupletMarginLoss()(x, y), x)[0].isfinite().all()


def test_a_negative_listed_twice_counts_twice_in_ntxent_there_only() -> None:
    x, y = batch("balanced")
    once = Triplets(*(torch.tensor([i]) for i in (0, 1, 2)))
    twice = Triplets(*(torch.tensor([i, i]) for i in (0, 1, 2)))
    ours = losses.create("ntxent")
    torch.testing.assert_close(ours(x, y, once), ours(x, y, twice))
    assert theirs(peers.NTXentLoss(0.1), x, y, twice) > ours(x, y, twice)
