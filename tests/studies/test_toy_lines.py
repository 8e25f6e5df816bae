"""The toy study: the loss equals the library's, runs are reproducible, and the report matches the counts."""

from __future__ import annotations

import json

import pytest
import torch

from levelfield import losses, miners
from levelfield.core.errors import UsageError
from levelfield.core.geometry import pair_counts
from levelfield.studies import _toy_training as training
from levelfield.studies import toy_lines


def batch(seeds=3):
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.nn.functional.normalize(torch.randn(seeds, 8, 2, generator=generator), dim=-1)
    return embeddings, (torch.arange(8) // 2).repeat(seeds, 1)


def test_without_switches_the_loss_is_the_contrastive_loss():
    embeddings, labels = batch()
    found = training.contrastive_losses(embeddings, labels, p_switch=0.0, random=torch.Generator())
    loss = losses.create("contrastive", neg_margin=training.MARGIN, reduction="sum")
    expected = torch.stack([loss(e, y) / 8 for e, y in zip(embeddings, labels, strict=True)])
    assert torch.allclose(found, expected, atol=1e-5)


def test_with_switches_the_loss_is_on_average_that_of_the_switching_miner():
    embeddings, labels = batch(1)
    random = torch.Generator().manual_seed(0)
    many = embeddings.expand(4000, -1, -1), labels.expand(4000, -1)
    found = training.contrastive_losses(*many, p_switch=0.3, random=random).mean()
    miner = miners.create("rho_switch", miner="all", p_switch=0.3, seed=0)
    counts = [pair_counts(labels[0], miner(embeddings[0], labels[0])) for _ in range(1500)]
    positive, negative = (torch.stack(each).mean(dim=0) for each in zip(*counts, strict=True))
    distance = torch.cdist(embeddings[0], embeddings[0])
    expected = (distance * positive + torch.relu(training.MARGIN - distance) * negative).sum() / 8
    assert found.item() == pytest.approx(expected.item(), rel=0.02)


def test_networks_that_train_side_by_side_do_not_touch_each_other(monkeypatch):
    monkeypatch.setattr(training, "ITERATIONS", 20)
    toy = training.vertical_lines()
    points = toy.train.flatten(0, 1)
    alone = training.train(toy, p_switch=0.0, seeds=[7])(points)
    together = training.train(toy, p_switch=0.0, seeds=[6, 7])(points)
    assert torch.allclose(alone[0], together[1], atol=1e-3)


def test_training_separates_the_training_lines():
    toy = training.diagonal_lines()
    networks = training.train(toy, p_switch=0.0, seeds=range(3))
    as_test = training.ToyLines("train", "", toy.train, toy.train)
    assert (toy_lines.separations(networks(toy.train.flatten(0, 1)), as_test) > 0.95).all()


def test_a_collapsed_embedding_separates_nothing():
    toy = training.vertical_lines()
    assert toy_lines.separations(torch.tensor([1.0, 0.0]).expand(1, 30, 2), toy).item() == 0.0
    assert torch.isfinite(toy_lines.spectral_decays(torch.tensor([1.0, 0.0]).expand(1, 30, 2))).all()


@pytest.mark.slow
def test_a_run_writes_what_it_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "ITERATIONS", 20)
    steps: list[str] = []
    outcomes = toy_lines.run_study(tmp_path / "toys", seeds=4, p_switch=[0.3], advance=steps.append)
    assert len(steps) == 4
    assert [each.toy for each in outcomes] == ["diagonal", "vertical"]
    assert toy_lines.run_study(tmp_path / "again", seeds=4, p_switch=[0.3]) == outcomes
    written = json.loads((tmp_path / "toys" / "toy-lines.json").read_text())
    assert written[0]["better"]["share"] == outcomes[0].better.share
    assert outcomes[0].better.low <= outcomes[0].better.share <= outcomes[0].better.high
    assert "| diagonal | 0.3 |" in (tmp_path / "toys" / "toy-lines.md").read_text()
    for name in ("diagonal", "vertical"):
        assert (tmp_path / "toys" / f"toy-lines-{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("options", [{"seeds": 1}, {"p_switch": []}, {"p_switch": [0.0]}])
def test_senseless_requests_are_refused(tmp_path, options):
    with pytest.raises(UsageError, match="toy-lines needs"):
        toy_lines.run_study(tmp_path, **options)
