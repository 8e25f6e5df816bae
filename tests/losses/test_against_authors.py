"""Losses against the formulas of their authors' public code, and on rows that are not numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from levelfield import losses
from levelfield.config import Experiment
from levelfield.losses import LossCard, synthesis
from levelfield.losses.synthesis import LossInputs
from levelfield.protocol import resolve_experiment

LABELS = torch.arange(12) // 4


def embeddings(seed: int = 0) -> Tensor:
    drawn = torch.randn(12, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(drawn + 1.5 * torch.eye(12, 6, dtype=torch.float64)[LABELS])


def average_precision_with_the_anchor(x: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Smooth-AP as its authors compute it: every sample of the class, the anchor too, is retrieved."""
    similarity = x @ x.T
    total = x.new_zeros(())
    for a in range(len(x)):
        mates = (labels == labels[a]).nonzero().flatten().tolist()
        for p in mates:
            above = torch.sigmoid((similarity[a] - similarity[a, p]) / temperature)
            overall = 1 + above.sum() - above[p]
            among = 1 + above[mates].sum() - above[p]
            total = total + among / overall / len(mates)
    return 1 - total / len(x)


@pytest.mark.parametrize("temperature", [0.01, 0.1])
def test_smooth_ap_ranks_the_anchor_as_its_authors_do(temperature: float) -> None:
    one, other = embeddings().requires_grad_(), embeddings().requires_grad_()
    ours = losses.create("smooth_ap", temperature=temperature)(one, LABELS)
    theirs = average_precision_with_the_anchor(torch.nn.functional.normalize(other), LABELS, temperature)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    ours.backward()
    theirs.backward()
    torch.testing.assert_close(one.grad, other.grad, rtol=1e-8, atol=1e-12)
    without = losses.create("smooth_ap", temperature=temperature, rank_anchor=False)(one, LABELS)
    assert without > ours


def test_a_changed_default_is_in_the_identity_of_a_run(tiny: dict[str, object]) -> None:
    """Runs from before the change lack the option; new runs have another digest."""
    tiny |= {"methods": ["smooth_ap", {"name": "m", "loss": "contrastive", "set": {"synthesis.metrix": 0.4}}]}
    resolved = resolve_experiment(Experiment.build(**tiny))
    found = [resolved.run_spec(method, {}, fold=0, seed=0).hyperparameters for method in resolved.methods]
    assert found[0]["rank_anchor"] is True
    assert found[1]["synthesis.metrix.anchor_factor"] == 0.75
    tiny |= {"methods": [{"name": "smooth_ap", "set": {"rank_anchor": False}}]}
    (method,) = resolve_experiment(Experiment.build(**tiny)).methods
    assert resolved.run_spec(method, {}, fold=0, seed=0).hyperparameters["rank_anchor"] is False


@pytest.mark.slow
@pytest.mark.parametrize("loss", losses.registry.names())
def test_recorded_options_exist_and_are_not_searched(loss: str) -> None:
    card: LossCard = losses.registry[loss].card
    assert set(card.recorded) <= set(losses.registry[loss].parameters) - set(card.space)


def test_metrix_weighs_blends_of_the_anchor_as_its_authors_do() -> None:
    """The authors add 0.4 times the loss of blended positives, 0.3 times that of blended anchors."""
    batch = LossInputs(embeddings(), LABELS)
    added = {}
    for factor in (0.75, 1.0):
        made = synthesis.create("metrix", blend="anchor", anchor_factor=factor)
        generator = torch.Generator().manual_seed(0)
        added[factor] = made(batch, lambda inputs: inputs.embeddings.sum(), generator=generator)
    alone = batch.embeddings.sum()
    torch.testing.assert_close(added[0.75] - alone, 0.75 * (added[1.0] - alone))


def test_the_defaults_are_the_authors() -> None:
    defaults = {name: losses.registry[name].parameters for name in ("pnp", "embedding_expansion")}
    assert (defaults["pnp"]["alpha"].default, defaults["pnp"]["variant"].default) == (4.0, "Dq")
    assert defaults["embedding_expansion"]["margin"].default == 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("loss", losses.registry.names())
def test_a_row_that_is_not_a_number_makes_the_loss_not_a_number(loss: str) -> None:
    """A training loop of one's own then sees NaN, instead of an error about an index."""
    vectors = embeddings().float()
    vectors[3] = float("nan")
    given = {"num_classes": 3, "embedding_size": 6, "seed": 0}
    known = losses.registry[loss].parameters
    value = losses.create(loss, **{k: v for k, v in given.items() if k in known})(vectors, LABELS)
    assert torch.isnan(value)
