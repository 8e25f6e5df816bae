"""The contract checks pass for all registered plug-ins and find the problems of broken ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from levelfield import losses, miners, samplers
from levelfield.core.errors import UsageError
from levelfield.core.registry import Card, Registry
from levelfield.core.space import Float
from levelfield.data import Dataset
from levelfield.losses import regularizers, synthesis
from levelfield.miners import Pairs, Triplets
from levelfield.models import Trunk
from levelfield.testing import (
    check_card,
    check_dataset,
    check_loss,
    check_metric,
    check_miner,
    check_sampler,
    check_trunk,
)

# Losses that stop a part of the gradient, as in the papers.
STOPS_GRADIENTS = {"ranked_list", "contextual", "circle", "circle_class", "curricularface", "adaface"}
ORDER_MATTERS = {"group"}  # the first samples of a class are its anchors
UNPUBLISHED = {"all", "pair_margin"}  # miners without a paper


@pytest.mark.slow
@pytest.mark.parametrize("name", losses.registry.names())
def test_every_loss_keeps_the_contract(name):
    check_loss(name, exact_gradient=name not in STOPS_GRADIENTS, order_matters=name in ORDER_MATTERS)


@pytest.mark.slow
@pytest.mark.parametrize("name", losses.registry.names())
def test_every_loss_has_a_complete_card(name):
    check_card(losses.registry[name], published=True)


@pytest.mark.parametrize("name", miners.registry.names())
def test_every_miner_keeps_the_contract(name):
    check_miner(name, by_class=name != "rho_switch")
    check_card(miners.registry[name], published=name not in UNPUBLISHED)


@pytest.mark.parametrize(
    "name", [name for name in samplers.registry.names() if not samplers.registry[name].card.needs_bank]
)
def test_every_sampler_without_a_bank_keeps_the_contract(name):
    check_sampler(name)
    check_card(samplers.registry[name])


@pytest.mark.parametrize("name", regularizers.registry.names())
def test_every_regularizer_has_a_complete_card(name):
    check_card(regularizers.registry[name], published=True)


@pytest.mark.parametrize("name", synthesis.registry.names())
def test_every_synthesis_has_a_complete_card(name):
    check_card(synthesis.registry[name], published=True)


@pytest.mark.parametrize("name", ["TripletMarginLoss", "ArcFaceLoss"])
def test_losses_of_pytorch_metric_learning_keep_it_too(name):
    pytest.importorskip("pytorch_metric_learning")
    check_loss(f"pml:{name}")


class Broken(nn.Module):
    """A loss that fails every check."""

    def __init__(self):
        super().__init__()
        self.noise = torch.rand(())

    def forward(self, embeddings, labels, tuples=None):
        spread = embeddings.std(dim=0).detach()
        return (embeddings / spread).pow(2).mean() + self.noise + embeddings[0].sum() + labels.float().mean()


@pytest.mark.filterwarnings("ignore:std")
def test_all_problems_of_a_broken_loss_are_found():
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
        "finite differences are",
    ):
        assert fault in text


class CarelessClassifier(nn.Module):
    """A classification loss that accepts any label."""

    def __init__(self, *, num_classes, embedding_size):
        super().__init__()
        self.layer = torch.zeros(num_classes, embedding_size)

    def forward(self, embeddings, labels, tuples=None):
        return (embeddings @ self.layer.to(embeddings.dtype).T).square().mean()


def test_a_classifier_that_accepts_any_label_is_found():
    with pytest.raises(AssertionError, match="no parameter that gets a gradient") as caught:
        check_loss(CarelessClassifier)
    assert "does not raise UsageError for label -1" in str(caught.value)


def test_a_loss_that_raises_fails_the_check_by_title():
    def crash(embeddings, labels, tuples=None):
        raise RuntimeError("no luck")

    with pytest.raises(AssertionError, match="for every batch: the check raises RuntimeError: no luck"):
        check_loss(lambda: crash)  # type: ignore[arg-type, return-value]  # a function, not a module


def swapped(embeddings, labels):
    index = torch.arange(len(labels))
    return Triplets(index, index, index)


def random_pairs(embeddings, labels):
    index = torch.randint(len(labels), (2,))
    return Pairs(index, index.int(), index, index)


def test_all_problems_of_broken_miners_are_found():
    with pytest.raises(AssertionError, match="an anchor is its own positive") as caught:
        check_miner(lambda: swapped)
    assert "a negative is of the anchor's class" in str(caught.value)
    with pytest.raises(AssertionError, match="not a one-dimensional int64 tensor") as caught:
        check_miner(lambda: random_pairs)
    assert "draws from a global random generator" in str(caught.value)


def test_a_card_that_does_not_fit_is_found():
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
        '"edge", which is not a parameter',
        "side=3.0 is outside",
    ):
        assert fault in str(caught.value)


class Stuck:
    """A sampler that ignores its seed and the epoch number."""

    needs_bank = False

    def __init__(self, labels, *, batch_size, seed):
        self.size = batch_size
        self.epochs = 0

    def epoch(self, number, iterations=None):
        self.epochs += 1
        for _ in range(iterations or 1):
            yield np.arange(self.size + self.epochs - 1)


def test_a_sampler_that_ignores_seed_and_epoch_is_found():
    with pytest.raises(AssertionError) as caught:
        check_sampler(Stuck)  # type: ignore[arg-type]  # a sampler by what it does, without the base class
    for fault in (
        "depends on earlier epochs",
        "two epochs are the same",
        "two seeds give the same",
    ):
        assert fault in str(caught.value)


class WrongImages:
    """Images of the wrong type, whose selection ignores the order."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def read(self, row):
        return torch.full((3, 2, 2), float(row))

    def select(self, rows):
        return WrongImages(len(rows))


def test_a_broken_dataset_is_found():
    dataset = Dataset(
        name="broken",
        images=WrongImages(4),
        labels=np.array([0, 1, 2, 3]),
        class_names=("a", "a"),
        fingerprint="",
    )
    with pytest.raises(AssertionError) as caught:
        check_dataset(dataset)
    for fault in (
        "labels are from 0 to 3",
        "the same name",
        "no fingerprint",
        "not uint8",
        "different images",
    ):
        assert fault in str(caught.value)


class Leaky:
    """Images of the right type that share their memory, and whose selection can be read past its end."""

    def __init__(self, pixels):
        self.pixels = pixels
        self.cannot_be_pickled = lambda: None

    def __len__(self):
        return 2

    def read(self, row):
        return self.pixels[row]

    def select(self, rows):
        return Leaky(torch.cat([self.pixels[rows], self.pixels]))


def test_a_dataset_with_shared_memory_is_found():
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
        "changes the next read",
        "past its end",
        "a different fingerprint",
        "cannot be sent to a worker",
        "is_validation is int64",
        "roles has values other than",
    ):
        assert fault in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("conv4", 32), ("resnet50", 64), ("timm:resnet10t", 64)])
def test_trunks_keep_the_contract(name, size):
    check_trunk(name, image_size=size)


class Moody(nn.Module):
    """Network that mixes the images of a batch and returns random features of the wrong size."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.unused = nn.Parameter(torch.ones(()))

    def forward(self, images):
        return images.mean((2, 3)) - images.mean() + self.weight * torch.rand(())


def test_all_problems_of_a_broken_trunk_are_found():
    def broken(*, in_channels):
        return Trunk(Moody(), name="broken", num_features=8)

    with pytest.raises(AssertionError) as caught:
        check_trunk(broken, image_size=8)
    for fault in (
        "declares maps",
        "declares 8 features",
        "the same images give different features",
        "depend on the other images",
        "a different seed gives the same weights",
        "unused gets no gradient",
    ):
        assert fault in str(caught.value)


LOSS_FILE = """
from torch import nn

import levelfield as lf


@lf.losses.register("{name}")
class Spread(nn.Module):
    "Mean squared length."

    def forward(self, embeddings, labels):
        return embeddings.square().mean(){end}
"""


def test_a_loss_is_checked_by_name_by_class_and_by_file(tmp_path: Path, capsys) -> None:
    file = tmp_path / "spread.py"
    file.write_text(LOSS_FILE.format(name="spread_by_file", end=""))
    outputs = []
    check_loss(file)
    outputs.append(capsys.readouterr().out)
    for loss in (str(file), losses.registry["spread_by_file"].target, "spread_by_file"):
        check_loss(loss)
        outputs.append(capsys.readouterr().out)
    title, *lines = outputs[0].splitlines()
    assert title == "loss spread_by_file"
    assert len(lines) == 7
    assert all(line.startswith("  ok: ") for line in lines)
    assert outputs == [outputs[0]] * 4


def test_a_failed_check_is_printed_and_a_file_without_a_loss_is_an_error(tmp_path: Path, capsys) -> None:
    file = tmp_path / "shifted.py"
    file.write_text(LOSS_FILE.format(name="shifted_by_file", end=" + labels.float().mean()"))
    with pytest.raises(AssertionError, match="loss shifted_by_file fails 1 of 7 checks"):
        check_loss(file)
    assert "  failed: class numbers and the order of samples do not matter" in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"shifted\.py registers no miner"):
        check_miner(file)


OTHER_PLUGINS = """
import torch

import levelfield as lf


@lf.miners.register("first_pair_by_file", finds="pairs")
class NoPairs:
    "No pairs."

    def __call__(self, embeddings, labels):
        none = torch.empty(0, dtype=torch.int64)
        return lf.miners.Pairs(none, none, none, none)


@lf.samplers.register("random_by_file")
class RandomByFile(lf.samplers.Random):
    "Random batches."


@lf.metrics.register("first_by_file", higher_is_better=True, label="First", unit="percent", depth=1)
def first(hits):
    "Precision at 1."
    return hits.count(hits.rank == 1)


@lf.models.register("linear_by_file")
def linear(*, in_channels=3):
    "Mean color."
    pool = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    layers = torch.nn.Sequential(pool, torch.nn.Linear(in_channels, 4))
    return lf.models.Trunk(layers, name="linear_by_file", num_features=4, spatial=False)


@lf.data.register("glyphs_by_file")
def glyphs():
    "Glyphs under another name."
    import dataclasses

    return dataclasses.replace(lf.data.load("glyphs"), name="glyphs_by_file")
"""


def test_plugins_of_every_kind_are_checked_by_file(tmp_path: Path, capsys) -> None:
    file = tmp_path / "other_plugins.py"
    file.write_text(OTHER_PLUGINS)
    for check in (check_miner, check_sampler, check_metric, check_trunk, check_dataset):
        check(file)
        assert "ok: " in capsys.readouterr().out
