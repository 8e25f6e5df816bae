"""Losses of views without labels are those of pytorch-metric-learning."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import levelfield as lf
from levelfield.core.errors import UsageError

PEERS = {
    "contrastive": ("ContrastiveLoss", {}),
    "triplet": ("TripletMarginLoss", {"margin": 0.2}),
    "ntxent": ("NTXentLoss", {"temperature": 0.1}),
    "supcon": ("SupConLoss", {"temperature": 0.1}),
    "multi_similarity": ("MultiSimilarityLoss", {}),
    "circle": ("CircleLoss", {}),
}


def views(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(9, 5, generator=generator, dtype=torch.float64)
    noise = torch.randn(count, 9, 5, generator=generator, dtype=torch.float64)
    return list(base + 0.7 * noise)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("loss", PEERS)
def test_it_is_their_self_supervised_loss(loss: str, symmetric: bool) -> None:
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    name, options = PEERS[loss]
    theirs = peers.SelfSupervisedLoss(getattr(peers, name)(**options), symmetric=symmetric)
    ours = lf.losses.SelfSupervised(lf.losses.create(loss, **options), symmetric=symmetric)
    torch.testing.assert_close(ours(*views(2)), theirs(*views(2)), rtol=1e-9, atol=1e-12)


def test_more_views_are_more_positives() -> None:
    one, two, three = views(3)
    loss = lf.losses.SupCon(temperature=0.1)
    labels = torch.arange(9).repeat(3)
    value = lf.losses.SelfSupervised(loss)(one, two, three)
    torch.testing.assert_close(value, loss(torch.cat([one, two, three]), labels))


def test_views_of_different_samples_are_refused() -> None:
    one, two = views(2)
    loss = lf.losses.SelfSupervised(lf.losses.NTXent())
    for wrong in ((one,), (one, two[:4])):
        with pytest.raises(UsageError, match="give two views or more"):
            loss(*wrong)


@pytest.mark.parametrize("order", ["views", "samples"])
def test_vicreg_takes_two_samples_of_a_class_as_views(order: str) -> None:
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    one, two = views(2)
    x = torch.cat([one, two]) if order == "views" else torch.stack([one, two], dim=1).flatten(0, 1)
    labels = torch.arange(9).repeat(2) if order == "views" else torch.arange(9).repeat_interleave(2)
    x = x.requires_grad_()
    value = lf.losses.create("pml:VICRegLoss")(x, labels)
    torch.testing.assert_close(value, peers.VICRegLoss()(one, ref_emb=two))
    value.backward()
    assert x.grad is not None and bool(x.grad.any())
    assert lf.losses.registry["pml:VICRegLoss"].card.embedding == "raw"
    alone = lf.losses.create("pml:VICRegLoss")(x, torch.arange(18))
    assert alone.item() == 0.0
