"""The contract checks pass for everything that is registered, and catch what is broken."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from levelfield import batches, losses, miners
from levelfield.data import Dataset
from levelfield.losses import regularisers, synthesis
from levelfield.miners import Pairs, Triplets
from levelfield.models import Trunk
from levelfield.registry import Card, Registry
from levelfield.space import Float
from levelfield.testing import (
    check_card,
    check_dataset,
    check_loss,
    check_miner,
    check_sampler,
    check_trunk,
)

# A part of them is constant to the gradient, as in the papers.
STOPS_GRADIENTS = {"ranked_list", "contextual", "circle", "circle_class", "curricularface", "adaface"}
ORDER_MATTERS = {"group"}  # the first samples of a class are its anchors
UNPUBLISHED = {"all", "pair_margin"}  # miners that no paper claims


@pytest.mark.parametrize("name", losses.registry.names())
def test_every_loss_keeps_the_contract(name):
    check_loss(name, exact_gradient=name not in STOPS_GRADIENTS, order_matters=name in ORDER_MATTERS)


@pytest.mark.parametrize("name", losses.registry.names())
def test_every_loss_has_a_complete_card(name):
    check_card(losses.registry[name], published=True)


@pytest.mark.parametrize("name", miners.registry.names())
def test_every_miner_keeps_the_contract(name):
    check_miner(name, by_class=name != "rho_switch")
    check_card(miners.registry[name], published=name not in UNPUBLISHED)


@pytest.mark.parametrize(
    "name", [name for name in batches.registry.names() if not batches.registry[name].card.needs_bank]
)
def test_every_sampler_without_a_bank_keeps_the_contract(name):
    check_sampler(name)
    check_card(batches.registry[name])


@pytest.mark.parametrize("name", regularisers.registry.names())
def test_every_regulariser_has_a_complete_card(name):
    check_card(regularisers.registry[name], published=True)


@pytest.mark.parametrize("name", synthesis.registry.names())
def test_every_synthesis_has_a_complete_card(name):
    check_card(synthesis.registry[name], published=True)


@pytest.mark.parametrize("name", ["TripletMarginLoss", "ArcFaceLoss"])
def test_losses_of_pytorch_metric_learning_keep_it_too(name):
    pytest.importorskip("pytorch_metric_learning")
    check_loss(f"pml:{name}")


class Broken(nn.Module):
    """A loss that does everything wrong that one can."""

    def __init__(self):
        super().__init__()
        self.noise = torch.rand(())

    def forward(self, embeddings, labels, tuples=None):
        spread = embeddings.std(dim=0).detach()
        return (embeddings / spread).pow(2).mean() + self.noise + embeddings[0].sum() + labels.float().mean()


@pytest.mark.filterwarnings("ignore:std")
def test_a_broken_loss_is_told_all_its_faults():
    with pytest.raises(AssertionError) as caught:
        check_loss(Broken)
    text = str(caught.value)
    for fault in (
        "on collapsed embeddings the value is",
        "on a batch of one the value is",
        "draws from a global random generator",
        "two new losses give",
        "when the classes are renumbered",
        "when the samples are shuffled",
        "the slope of the value",
    ):
        assert fault in text


class CarelessClassifier(nn.Module):
    """A classification loss that lets any label pass."""

    def __init__(self, *, num_classes, embedding_size):
        super().__init__()
        self.layer = torch.zeros(num_classes, embedding_size)

    def forward(self, embeddings, labels, tuples=None):
        return (embeddings @ self.layer.to(embeddings.dtype).T).square().mean()


def test_a_careless_classifier_is_told():
    with pytest.raises(AssertionError, match="no parameter that gets a gradient") as caught:
        check_loss(CarelessClassifier)
    assert "does not refuse label -1" in str(caught.value)


def test_a_loss_that_raises_is_told_where():
    def crash(embeddings, labels, tuples=None):
        raise RuntimeError("no luck")

    with pytest.raises(AssertionError, match="values: raises RuntimeError: no luck"):
        check_loss(lambda: crash)


def swapped(embeddings, labels):
    index = torch.arange(len(labels))
    return Triplets(index, index, index)


def random_pairs(embeddings, labels):
    index = torch.randint(len(labels), (2,))
    return Pairs(index, index.int(), index, index)


def test_broken_miners_are_told_all_their_faults():
    with pytest.raises(AssertionError, match="an anchor is its own positive") as caught:
        check_miner(lambda: swapped)
    assert "a negative is of the anchor's class" in str(caught.value)
    with pytest.raises(AssertionError, match="not a list of int64") as caught:
        check_miner(lambda: random_pairs)
    assert "draws from a global random generator" in str(caught.value)


def test_a_card_that_does_not_fit_is_told():
    shapes = Registry("shape", Card)

    @shapes.register("square", space={"side": Float(1.0, 2.0), "edge": Float(0.0, 1.0)})
    def square(*, side=3.0):
        return side

    with pytest.raises(AssertionError) as caught:
        check_card(shapes["square"], published=True)
    for fault in (
        "no summary",
        "no paper",
        "no year",
        '"edge", which is no parameter',
        "side=3.0 is outside",
    ):
        assert fault in str(caught.value)


class Stuck:
    """A sampler that forgets its seed and counts its epochs itself."""

    needs_bank = False

    def __init__(self, labels, *, batch_size, seed):
        self.size = batch_size
        self.epochs = 0

    def epoch(self, number, iterations=None):
        self.epochs += 1
        for _ in range(iterations or 1):
            yield np.arange(self.size + self.epochs - 1)


def test_a_stuck_sampler_is_told():
    with pytest.raises(AssertionError) as caught:
        check_sampler(Stuck)
    for fault in (
        "depends on the epochs drawn before it",
        "two epochs are the same",
        "two seeds give the same",
    ):
        assert fault in str(caught.value)


class Pictures:
    """Images of the wrong type, whose selection forgets its order."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def read(self, row):
        return torch.full((3, 2, 2), float(row))

    def select(self, rows):
        return Pictures(len(rows))


def test_a_broken_dataset_is_told():
    dataset = Dataset(
        name="broken",
        images=Pictures(4),
        labels=np.array([0, 1, 2, 3]),
        class_names=("a", "a"),
        fingerprint="",
    )
    with pytest.raises(AssertionError) as caught:
        check_dataset(dataset)
    for fault in ("labels run from 0 to 3", "the same name", "no fingerprint", "not uint8", "other images"):
        assert fault in str(caught.value)


class Leaky:
    """Images of the right type that share their memory, and whose selection can be read beyond its end."""

    def __init__(self, pixels):
        self.pixels = pixels
        self.cannot_be_pickled = lambda: None

    def __len__(self):
        return 2

    def read(self, row):
        return self.pixels[row]

    def select(self, rows):
        return Leaky(torch.cat([self.pixels[rows], self.pixels]))


def test_a_careless_dataset_is_told():
    counts = iter(range(9))

    def careless():
        return Dataset(
            name="careless",
            images=Leaky(torch.zeros(2, 1, 2, 2, dtype=torch.uint8)),
            labels=np.array([0, 1]),
            class_names=("a", "b"),
            fingerprint=str(next(counts)),
            is_validation=np.array([1, 0]),
            roles=np.array([4, 0], dtype=np.int8),
        )

    with pytest.raises(AssertionError) as caught:
        check_dataset(careless)
    for fault in (
        "changes what is read next",
        "beyond its end",
        "another fingerprint",
        "cannot be sent to a worker",
        "is_validation is int64",
        "roles holds other values",
    ):
        assert fault in str(caught.value)


@pytest.mark.parametrize(("name", "size"), [("conv4", 32), ("resnet50", 64), ("timm:resnet10t", 64)])
def test_trunks_keep_the_contract(name, size):
    check_trunk(name, image_size=size)


class Moody(nn.Module):
    """Mixes up the images of a batch and draws new features each time, from too few numbers."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.unused = nn.Parameter(torch.ones(()))

    def forward(self, images):
        return images.mean((2, 3)) - images.mean() + self.weight * torch.rand(())


def test_a_broken_trunk_is_told_all_its_faults():
    def broken(*, in_channels):
        return Trunk(Moody(), name="broken", num_features=8)

    with pytest.raises(AssertionError) as caught:
        check_trunk(broken, image_size=8)
    for fault in (
        "announces maps",
        "announces 8 features",
        "other features for the same images",
        "depend on the other images",
        "another seed gives the same weights",
        "unused gets no gradient",
    ):
        assert fault in str(caught.value)
