"""Sums of losses: values, options, cards and what is refused; a run trains with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import levelfield as lf
from levelfield import losses, miners
from levelfield.config import BatchSpec, MethodSpec
from levelfield.core.errors import UsageError
from levelfield.core.seeds import seed_for
from levelfield.methods import resolve_method

LABELS = torch.arange(12) // 3
SHAPE = {"num_classes": 4, "embedding_size": 6}


def batch() -> torch.Tensor:
    drawn = torch.randn(12, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.nn.functional.normalize(drawn).requires_grad_()


def test_the_value_is_the_weighted_sum() -> None:
    both = losses.create(
        "sum:triplet+proxy_anchor", **SHAPE, seed=3, triplet_margin=0.3, proxy_anchor_weight=0.25
    ).double()
    one = losses.create("triplet", margin=0.3)
    two = losses.create("proxy_anchor", **SHAPE, seed=seed_for("sum of losses", 3, 1)).double()
    x = batch()
    torch.testing.assert_close(both(x, LABELS), one(x, LABELS) + 0.25 * two(x, LABELS))
    mined = miners.create("hard")(x.detach(), LABELS)
    torch.testing.assert_close(both(x, LABELS, mined), one(x, LABELS, mined) + 0.25 * two(x, LABELS))


def test_it_is_the_sum_of_pytorch_metric_learning() -> None:
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    theirs = peers.MultipleLosses([peers.ContrastiveLoss(), peers.CircleLoss()], weights=[1, 0.5])
    ours = losses.create("sum:contrastive+pml:CircleLoss", CircleLoss_weight=0.5)
    torch.testing.assert_close(ours(batch(), LABELS), theirs(batch(), LABELS))
    source = losses.registry["sum:contrastive+pml:CircleLoss"].source
    assert source is not None and source.startswith("pml:CircleLoss pytorch")
    assert losses.registry["sum:contrastive+triplet"].source is None


def test_the_card_is_what_any_part_needs() -> None:
    method = resolve_method(MethodSpec(name="both", loss="sum:triplet+arcface"))
    card = method.card
    assert (card.kind, card.tuples, card.embedding, card.own_lr) == (
        "classification",
        "triplets",
        "unit",
        True,
    )
    alone = {name: losses.registry[name].card.space for name in ("triplet", "arcface")}
    expected = {f"{part}_{key}": each for part, space in alone.items() for key, each in space.items()}
    assert {k: v for k, v in method.space.items() if k != "loss_lr"} == expected
    assert method.defaults()["triplet_margin"] == losses.Triplet().margin
    # Samples of one class are compared, so a batch holds as many as for triplet alone.
    sizes = BatchSpec(samples_per_class=4, samples_per_class_classification=1)
    assert method.resolve_samples_per_class(sizes) == 4
    searched = MethodSpec(name="both", loss="sum:triplet+arcface", space={"arcface_weight": [0.1, 1.0]})
    assert "arcface_weight" in resolve_method(searched).space


@pytest.mark.parametrize(
    ("loss", "options", "reason"),
    [
        ("sum:triplet", {}, "does not name two or more different losses"),
        ("sum:triplet+triplet", {}, "does not name two or more different losses"),
        ("sum:triplet+", {}, "does not name two or more different losses"),
        ("sum:triplet+tripletz", {}, 'unknown loss "tripletz"; did you mean "triplet"'),
        ("sum:triplet+npair", {}, "triplet takes unit ones, npair takes raw ones"),
        ("sum:triplet+contrastive", {"margin": 1}, 'no parameter "margin"'),
        ("sum:triplet+contrastive", {"triplet_weight": -1.0}, "triplet_weight"),
        ("sum:triplet+contrastive", {"triplet_margin": "wide"}, "triplet_margin"),
    ],
)
def test_mistakes_are_named(loss: str, options: dict[str, object], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        losses.create(loss, **options)


def test_parts_keep_their_own_learning_rates() -> None:
    def rates(loss: Any) -> list[float]:
        return [rate for _, rate in loss.parameters_with_lr(0.5)]

    both = losses.create("sum:margin+hist", **SHAPE)
    alone = [losses.create("margin", num_classes=4), losses.create("hist", **SHAPE)]
    assert rates(both) == [rate for loss in alone for rate in rates(loss)]


@pytest.mark.slow
def test_an_experiment_trains_with_a_sum(tiny: dict[str, object], tmp_path: Path) -> None:
    tiny |= {"methods": [{"name": "both", "loss": "sum:triplet+proxy_anchor"}]}
    run = lf.run(lf.Experiment.build(**tiny), out=tmp_path / "out")
    assert "both" in str(run.table)
