"""Embedding losses stay finite and precise, and run under autocast and torch.compile."""

from __future__ import annotations

import pytest
import torch
from tests.helpers.naming import each_named
from tests.oracles.losses_embedding_cases import (
    CASES,
    DETACHED,
    LABELS,
    RANKING,
    Case,
    batch,
    random_triplets,
)

from levelfield import losses
from levelfield.core.errors import UsageError

DEFAULTS = [Case(name) for name in dict.fromkeys(case.name for case in CASES)]
EXTREMES = [
    Case("ntxent", {"temperature": 0.0002}),
    Case("supcon", {"temperature": 0.0002}),
    Case("multi_similarity", {"alpha": 50.0, "beta": 1000.0, "base": 1.0}),
    Case("circle", {"gamma": 5000.0}),
    Case("tuplet_margin", {"scale": 5000.0}),
    Case("nca", {"softmax_scale": 5000.0}),
    Case("smooth_ap", {"temperature": 0.0002}),
    Case("recall_at_k", {"rank_temperature": 0.0002, "recall_temperature": 0.0002}),
    Case("angular", {"alpha": 85.0}),
    Case("histogram", {"num_bins": 1000}),
    Case("fastap", {"num_bins": 1000}),
    Case("siglip", {"scale": 5000.0}),
    Case("hyperbolic", {"temperature": 0.0002, "clip_radius": 20.0, "curvature": 2.0}),
    Case("roadmap", {"temperature": 0.0002}),
    Case("pnp", {"temperature": 0.0002}),
    Case("ranked_list", {"negative_temperature": 5000.0, "positive_temperature": 5000.0}),
]
# These compile into one graph; the others read the number of positives.
DENSE = ["contrastive", "ntxent", "supcon", "multi_similarity", "circle", "nca", "tuplet_margin"]
DENSE += ["lifted_structure", "generalized_lifted", "margin", "snr_contrastive", "siglip"]
DENSE += ["ranked_list", "hyperbolic"]


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, *EXTREMES], ids=str)
def test_value_and_gradient_are_finite_in_float32(case: Case) -> None:
    for kind, name in each_named([*LABELS, "duplicates", "collapsed", "opposite", "zeros"]):
        with name:
            x, y = batch(kind)
            x = x.detach().float().requires_grad_()
            value = case.create()(x, y)
            value.backward()
            assert value.dtype == torch.float32
            assert value.isfinite()
            assert x.grad is not None
            assert x.grad.isfinite().all()


@pytest.mark.parametrize("case", DEFAULTS, ids=str)
def test_float32_and_bfloat16_agree_with_float64(case: Case) -> None:
    x, y = batch("unbalanced", size=16)
    loss = case.create()
    exact = loss(x, y)
    torch.testing.assert_close(loss(x.float(), y), exact.float(), rtol=1e-4, atol=1e-5)
    coarse = x.detach().bfloat16().requires_grad_()
    value = loss(coarse, y)
    value.backward()
    assert value.dtype == torch.float32
    assert coarse.grad is not None
    assert coarse.grad.dtype == torch.bfloat16
    assert coarse.grad.isfinite().all()
    torch.testing.assert_close(value, loss(coarse.double(), y).float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", DEFAULTS, ids=str)
def test_autocast_changes_nothing(case: Case) -> None:
    x, y = batch("balanced", size=16)
    x = x.detach().float().requires_grad_()
    loss = case.create()
    value = loss(x, y)
    (gradient,) = torch.autograd.grad(value, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = loss(x, y)
        (gradient_under,) = torch.autograd.grad(under, x)
    torch.testing.assert_close(under, value, rtol=0, atol=0)
    torch.testing.assert_close(gradient_under, gradient, rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case.name not in DETACHED], ids=str)
def test_gradient_passes_gradcheck(case: Case) -> None:
    x, y = batch("unbalanced", seed=3)
    sharp = case.options.get("temperature") == 0.0002
    loss = case.create()
    atol = 1e-2 if sharp else 1e-4
    torch.autograd.gradcheck(lambda v: loss(v, y), (x,), eps=1e-8 if sharp else 1e-6, atol=atol)
    if case.name not in RANKING and case.options.get("pairs") != "class":
        tuples = random_triplets(y, 9)
        torch.autograd.gradcheck(lambda v: loss(v, y, tuples), (x,), eps=1e-7, atol=atol)


@pytest.mark.parametrize("name", DENSE)
def test_dense_losses_compile_without_graph_breaks(name: str) -> None:
    x, y = batch("balanced", size=8)
    loss = losses.create(name)
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, y), loss(x, y))


@pytest.mark.slow
def test_a_compiled_loss_has_the_same_gradient() -> None:
    x, y = batch("balanced", size=8)
    loss = losses.create("contrastive")
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x, y), x), torch.autograd.grad(loss(x, y), x))


@pytest.mark.parametrize("name", sorted(RANKING))
def test_ranking_losses_refuse_a_miner(name: str) -> None:
    x, y = batch("balanced")
    with pytest.raises(UsageError, match="drop the miner"):
        losses.create(name)(x, y, random_triplets(y, 3))


@pytest.mark.parametrize("case", DEFAULTS, ids=str)
def test_wrong_shapes_are_named(case: Case) -> None:
    loss = case.create()
    with pytest.raises(UsageError, match="one vector"):
        loss(torch.zeros(2, 3, 4), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(UsageError, match="one label per embedding"):
        loss(torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64))


def test_an_unknown_reduction_is_named() -> None:
    x, y = batch("balanced")
    with pytest.raises(UsageError, match="one of mean, mean_nonzero, sum"):
        losses.create("triplet", reduction="men")(x, y)


def test_coinciding_positives_leave_the_tuplet_margin_loss_a_finite_gradient() -> None:
    for kind in ("duplicates", "collapsed", "opposite"):
        x, y = batch(kind)
        value = losses.create("tuplet_margin")(x, y)
        value.backward()
        assert x.grad is not None
        assert x.grad.isfinite().all()


def test_margin_learns_a_boundary_for_each_class_of_the_batch() -> None:
    x, y = batch("shuffled")
    loss = losses.create("margin", per_class=True, num_classes=10, margin=0.5)
    loss(x, y).backward()
    gradient = loss.get_parameter("boundary").grad
    assert gradient is not None and gradient.shape == (10,)
    assert set(gradient.nonzero().flatten().tolist()) <= {0, 1, 7}  # class 3 has no positives
    assert gradient.abs().sum() > 0


def test_margin_with_a_fixed_boundary_has_no_parameters() -> None:
    assert list(losses.create("margin", learn_beta=False).parameters()) == []
    assert "boundary" in losses.create("margin", learn_beta=False).state_dict()


def test_margin_per_class_refuses_labels_it_has_no_boundary_for() -> None:
    x, y = batch("shuffled")
    with pytest.raises(UsageError, match="margin with per_class"):
        losses.create("margin", per_class=True, num_classes=5)(x, y)


def test_quadruplets_of_classes_stay_apart_when_the_margin_is_very_negative() -> None:
    x, y = batch("balanced")
    case = Case("quadruplet", {"margin_1": 0.0, "margin_2": -9.0, "normalize": False, "reduction": "sum"})
    torch.testing.assert_close(case.create()(10 * x, y), case.expected(10 * x, y))


def test_margin_per_class_wants_the_number_of_classes() -> None:
    with pytest.raises(UsageError, match="num_classes"):
        losses.create("margin", per_class=True)


def test_siglip_learns_scale_and_bias() -> None:
    x, y = batch("balanced")
    loss = losses.create("siglip").double()
    loss(x, y).backward()
    step = 1e-6
    for parameter in loss.parameters():
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * step)
                ends.append(loss(x, y).item())
                parameter.sub_(sign * step)
        assert parameter.grad is not None
        torch.testing.assert_close(
            parameter.grad.item(), (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-8
        )
    assert list(losses.create("siglip", learn=False).parameters()) == []


def test_contextual_refuses_weights_that_leave_less_than_nothing() -> None:
    with pytest.raises(UsageError, match="add up"):
        losses.create("contextual", contextual_weight=0.8, similarity_weight=0.3)
    with pytest.raises(UsageError, match="at least 2"):
        losses.create("contextual", neighbors=1)
