"""``pml:NAME``: every loss and miner of pytorch-metric-learning under our contracts."""

from __future__ import annotations

import inspect
import sys

import pytest
import torch

from levelfield import losses, miners
from levelfield.core.errors import UsageError
from levelfield.losses.pml import REFUSED as REFUSED_LOSSES
from levelfield.miners import Pairs, Triplets
from levelfield.miners.pml import REFUSED as REFUSED_MINERS
from levelfield.miners.pml_bridge import from_pml, to_pml

peer_losses = pytest.importorskip("pytorch_metric_learning.losses")
peer_miners = pytest.importorskip("pytorch_metric_learning.miners")

CLASSES, SIZE = 4, 8
NEEDED = {"RankedListLoss": {"margin": 0.5, "Tn": 10}}


def public(source, base, refused):
    return sorted(
        name
        for name, each in vars(source).items()
        if inspect.isclass(each) and issubclass(each, base) and each is not base and name not in refused
    )


LOSSES = public(peer_losses, peer_losses.BaseMetricLossFunction, REFUSED_LOSSES)
MINERS = public(peer_miners, peer_miners.BaseMiner, REFUSED_MINERS)


def batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.normalize(torch.randn(12, SIZE, generator=generator))
    return x.requires_grad_(), torch.arange(12) // 3


def make(name, **options):
    card = losses.registry[f"pml:{name}"].card
    shape = {"num_classes": CLASSES, "embedding_size": SIZE} if card.kind == "classification" else {}
    return losses.create(f"pml:{name}", **shape, **NEEDED.get(name, {}), **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_runs_and_trains(name):
    before = torch.get_rng_state()
    loss = make(name)
    x, labels = batch()
    value = loss(x, labels)
    value.backward()
    assert value.ndim == 0
    assert torch.isfinite(value)
    assert torch.isfinite(x.grad).all()
    for parameter in loss.parameters():
        assert parameter.grad is not None
    assert torch.equal(torch.get_rng_state(), before)
    card = losses.registry[f"pml:{name}"].card
    assert card.space == {}
    assert card.own_lr or not list(loss.parameters())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOSSES)
def test_a_miner_that_finds_nothing_gives_exactly_zero(name):
    if losses.registry[f"pml:{name}"].card.tuples is None:
        pytest.skip("takes no tuples")
    x, labels = batch()
    nothing = torch.empty(0, dtype=torch.int64)
    for tuples in (Triplets(nothing, nothing, nothing), Pairs(nothing, nothing, nothing, nothing)):
        value = make(name)(x, labels, tuples)
        assert value.item() == 0
        assert not torch.autograd.grad(value, x)[0].any()


@pytest.mark.parametrize("name", MINERS)
def test_every_miner_runs_and_repeats_itself(name):
    x, labels = batch()
    before = torch.get_rng_state()
    one, two = (miners.create(f"pml:{name}", seed=5)(x, labels) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert (miners.registry[f"pml:{name}"].card.finds == "triplets") == isinstance(one, Triplets)
    for first, second in zip(one.indices, two.indices, strict=True):
        assert torch.equal(first, second)
        assert first.dtype == torch.int64


def test_value_is_theirs():
    x, labels = batch()
    indices = peer_miners.MultiSimilarityMiner(epsilon=0.2)(x, labels)
    expected = peer_losses.CircleLoss(m=0.3, gamma=20)(x, labels, indices)
    mined = miners.create("pml:MultiSimilarityMiner", epsilon=0.2)(x, labels)
    torch.testing.assert_close(losses.create("pml:CircleLoss", m=0.3, gamma=20)(x, labels, mined), expected)


def test_tuples_survive_both_ways():
    index = [torch.tensor([i]) for i in range(4)]
    for tuples in (Triplets(*index[:3]), Pairs(*index)):
        indices = to_pml(tuples)
        assert indices is not None and from_pml(indices) == tuples
    assert to_pml(None) is None


def test_our_miner_feeds_their_loss_and_their_miner_feeds_ours():
    x, labels = batch()
    theirs = losses.create("pml:TripletMarginLoss")(x, labels, miners.create("semihard")(x, labels))
    ours = losses.create("triplet")(x, labels, miners.create("pml:BatchHardMiner")(x, labels))
    assert torch.isfinite(theirs)
    assert torch.isfinite(ours)


def test_parts_are_made_from_their_names():
    loss = losses.create("pml:TripletMarginLoss", distance="CosineSimilarity", reducer="MeanReducer")
    assert type(loss.get_submodule("loss.distance")).__name__ == "CosineSimilarity"
    assert type(loss.get_submodule("loss.reducer")).__name__ == "MeanReducer"
    squared = losses.create("pml:TripletMarginLoss", distance={"name": "LpDistance", "power": 2})
    assert squared.get_submodule("loss.distance").power == 2


def test_weights_depend_on_the_seed_and_are_checked():
    one, same, other = make("ArcFaceLoss", seed=1), make("ArcFaceLoss", seed=1), make("ArcFaceLoss", seed=2)
    assert torch.equal(one.loss.W, same.loss.W)
    assert not torch.equal(one.loss.W, other.loss.W)
    with pytest.raises(UsageError, match=r"pml:ArcFaceLoss expects labels 0\.\.3, got 4"):
        one(torch.ones(1, SIZE), torch.tensor([4]))


def test_a_random_loss_resumes_from_its_state():
    x, labels = batch()
    whole = losses.create("pml:TripletMarginLoss", triplets_per_anchor=1, seed=3)
    values = [whole(x, labels).item() for _ in range(4)]
    assert len(set(values)) > 1
    first = losses.create("pml:TripletMarginLoss", triplets_per_anchor=1, seed=3)
    start = [first(x, labels).item() for _ in range(2)]
    second = losses.create("pml:TripletMarginLoss", triplets_per_anchor=1, seed=3)
    second.load_state_dict(first.state_dict())
    assert start + [second(x, labels).item() for _ in range(2)] == values


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pml:CircelLoss", {}, 'no CircelLoss among its losses; did you mean "CircleLoss"'),
        ("pml:GenericPairLoss", {}, "is a base class"),
        ("pml:MultipleLosses", {}, "write sum:ONE"),
        ("pml:CrossBatchMemory", {}, "set memory.capacity"),
        ("pml:SelfSupervisedLoss", {}, "levelfield.losses.SelfSupervised"),
        ("pml:CircleLoss", {"gama": 1}, 'has no parameter "gama"; did you mean "gamma"'),
        ("pml:RankedListLoss", {}, "needs a value for margin and Tn"),
        ("pml:CircleLoss", {"distance": "LpDistance"}, "pml:CircleLoss rejects the options"),
        ("pml:CircleLoss", {"distance": "Lp"}, "no Lp among its distances"),
    ],
)
def test_mistakes_are_named(name, options, message):
    with pytest.raises(UsageError, match=message):
        losses.create(name, **options)


@pytest.mark.parametrize("registry", [losses.registry, miners.registry], ids=["losses", "miners"])
def test_without_the_package_the_error_names_the_extra(registry, monkeypatch):
    for name in (
        "pytorch_metric_learning",
        *(n for n in sys.modules if n.startswith("pytorch_metric_learning.")),
    ):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r'pip install "levelfield\[peers\]"'):
        registry["pml:Anything"]
