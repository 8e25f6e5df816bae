"""The loss gets embeddings of the length that it is defined on, and never NaN."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import levelfield as lf
from levelfield import losses, methods, models
from levelfield.config import MethodSpec
from levelfield.protocol import resolve_experiment
from levelfield.train._objective import NotFiniteError, Objective

RAW = {"npair", "angular", "generalized_lifted", "sphereface", "cross_entropy", "adaface", "magface"}
RAW |= {"hyperbolic", "group"}


def run_spec(method: str, **values: Any) -> Any:
    experiment = lf.Experiment.build(name="x", preset="demo", trunk={"mode": "frozen"}, **values)
    recipe = methods.resolve_method(MethodSpec(name=method))
    return resolve_experiment(experiment).run_spec(recipe, recipe.defaults(), fold=0, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", losses.registry.names())
def test_the_card_says_what_a_loss_is_defined_on(name: str) -> None:
    """The length of embeddings changes exactly the losses whose card says raw."""
    classifies = losses.registry[name].card.kind == "classification"
    loss = losses.create(name, **({"num_classes": 4, "embedding_size": 6} if classifies else {})).double()
    loss.eval()  # moving averages are not updated
    x = torch.randn(8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(8) % 4
    exceptions = {
        "snr_contrastive",
        "snr_triplet",
    }  # only their regularizer depends on the length, as published
    changes = not torch.isclose(loss(30 * x, labels), loss(x, labels))  # magface depends on lengths above 10
    assert changes == (losses.registry[name].card.embedding == "raw" or name in exceptions)
    assert (losses.registry[name].card.embedding == "raw") == (name in RAW)


def test_a_run_trains_on_raw_embeddings_where_the_loss_is_defined_on_them() -> None:
    assert run_spec("npair").head.normalize is False
    assert run_spec("triplet").head.normalize is True
    assert run_spec("npair", head={"normalize": True}).head.normalize is True
    assert run_spec("triplet", head={"normalize": False}).head.normalize is False


def test_npair_reaches_zero_on_raw_embeddings_and_not_on_the_sphere() -> None:
    """For separated classes on the sphere, the loss stays near that of a random start."""
    labels = torch.arange(8).repeat_interleave(4)
    separated = torch.eye(8).repeat_interleave(4, 0)
    loss = losses.create("npair", l2=0.0)
    assert loss(separated, labels) > 2
    assert loss(10 * separated, labels) < 1e-3


class Broken(models.Embedder):
    """Network with one NaN in its embeddings."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)

    def project(self, features: torch.Tensor) -> torch.Tensor:
        embeddings = torch.randn(len(features), 16, generator=torch.Generator().manual_seed(0))
        embeddings[3, 2] = torch.nan
        return embeddings


@pytest.mark.parametrize("method", ["fastap", "histogram", "triplet", "multi_similarity_miner", "arcface"])
def test_one_nan_is_found_before_the_loss(method: str) -> None:
    objective = Objective(run_spec(method), num_classes=4, embedding_size=16)
    objective.start_epoch(1)
    with pytest.raises(NotFiniteError, match="embeddings are not finite"):
        objective(Broken(), torch.zeros(8, 4), torch.arange(8) % 4)


class Padded(models.Embedder):
    """Network whose embeddings are its features and zeros."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)

    def project(self, features: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(features, (0, 16 - features.shape[1]))


@pytest.mark.parametrize(
    ("loss", "extra", "raises"),
    [
        ("proxy_anchor", {"regularizer.anti_collapse_proxies": 1.0}, "cholesky"),
    ],
)
def test_an_error_of_a_loss_with_nan_parameters_is_divergence(
    loss: str, extra: dict[str, Any], raises: str
) -> None:
    """A too high learning rate of the class weights leads to this; the embeddings are still finite."""
    experiment = lf.Experiment.build(name="x", preset="demo", trunk={"mode": "frozen"})
    recipe = methods.resolve_method(MethodSpec(name="own", loss=loss, set=extra))
    spec = resolve_experiment(experiment).run_spec(
        recipe, {**recipe.defaults(), **recipe.fixed}, fold=0, seed=0
    )
    objective = Objective(spec, num_classes=4, embedding_size=16, feature_size=6)
    objective.start_epoch(1)
    features, labels = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 4
    embedder = Padded()
    value, _ = objective(embedder, features, labels)
    assert torch.isfinite(value)
    with torch.no_grad():
        next(objective.parameters())[0, 0] = torch.nan
    with pytest.raises(NotFiniteError, match="own parameters are not finite") as error:
        objective(embedder, features, labels)
    assert raises in str(error.value.__cause__)
