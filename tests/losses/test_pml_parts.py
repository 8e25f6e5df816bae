"""Every reducer, distance and regularizer of pytorch-metric-learning works in the bridge, or says why not."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch

from levelfield import losses
from levelfield.core.errors import UsageError

pml = pytest.importorskip("pytorch_metric_learning")
from pytorch_metric_learning import distances, miners, reducers, regularizers, samplers  # noqa: E402 - if it is installed
from pytorch_metric_learning import losses as peers  # noqa: E402 - if it is installed

pytestmark = pytest.mark.filterwarnings("ignore")
OPTIONS: dict[str, Any] = {
    "ClassWeightedReducer": {"weights": [1.0, 2.0, 0.5, 1.0]},
    "MultipleReducers": {
        "reducers": {"pos_loss": "MeanReducer", "neg_loss": {"name": "ThresholdReducer", "low": 0.1}}
    },
    "PerAnchorReducer": {"reducer": "SumReducer"},
    "ThresholdReducer": {"low": 0.0},
}
REFUSED = {"BaseReducer", "DoNothingReducer"}  # a base class; and one that returns no number


def public(module: Any) -> list[str]:
    return sorted(name for name, each in vars(module).items() if inspect.isclass(each))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.normalize(x).requires_grad_(), torch.arange(12) // 3


@pytest.mark.parametrize("name", [name for name in public(reducers) if name not in REFUSED])
def test_every_reducer_trains_or_is_refused(name: str) -> None:
    loss = losses.create("pml:ContrastiveLoss", reducer={"name": name, **OPTIONS.get(name, {})})
    x, y = batch()
    if name == "DivisorReducer":
        with pytest.raises(UsageError, match="gives DivisorReducer no divisor; choose another"):
            loss(x, y)
        return
    value = loss(x, y)
    value.backward()
    assert torch.isfinite(value) and x.grad is not None and bool(x.grad.any())


def test_the_divisor_reducer_works_where_there_is_a_divisor() -> None:
    loss = losses.create(
        "pml:ProxyAnchorLoss", num_classes=4, embedding_size=8, reducer={"name": "DivisorReducer"}
    )
    x, y = batch()
    assert torch.isfinite(loss(x, y))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"reducer": {"name": "MultipleReducers", "reducers": ["MeanReducer"]}}, "a reducer for each part"),
        ({"reducer": {"name": "ClassWeightedReducer", "weights": [1, 2]}}, "has 2 weights, .* a class 3"),
        ({"reducer": ["MeanReducer"]}, "give one name of pytorch-metric-learning's reducers, such as"),
        ({"distance": ["LpDistance"]}, "give one name of pytorch-metric-learning's distances, such as"),
        ({"distance": {"nam": "LpDistance"}}, "or {name: LpDistance, power: 2}"),
        ({"reducer": "DoNothingReducer"}, "returns no number with its reducer; choose another"),
        ({"distance": {"name": "LpDistance", "power": "x"}}, "power of LpDistance is 'x'; give a number"),
    ],
)
def test_options_that_do_not_fit_a_part_are_named(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        losses.create("pml:ContrastiveLoss", **parts)(*batch())


@pytest.mark.parametrize("name", ["CenterInvariantRegularizer", "RegularFaceRegularizer"])
def test_regularizers_of_weights(name: str) -> None:
    given = {"num_classes": 4, "embedding_size": 8, "seed": 0}
    x, y = batch()
    plain = losses.create("pml:NormalizedSoftmaxLoss", **given)(x, y)
    more = losses.create("pml:NormalizedSoftmaxLoss", **given, weight_regularizer=name)(x, y)
    assert torch.isfinite(more) and more > plain


def test_manifold_loss_takes_the_classes_as_its_groups() -> None:
    x, y = batch()
    loss = losses.create("pml:ManifoldLoss", num_classes=4, embedding_size=8, seed=1)
    value = loss(x, y)
    value.backward()
    assert value.ndim == 0 and torch.isfinite(value) and x.grad is not None and bool(x.grad.any())
    assert losses.registry["pml:ManifoldLoss"].card.kind == "classification"
    inner = peers.ManifoldLoss(l=8, K=4)
    inner.load_state_dict(loss.get_submodule("loss").state_dict())
    torch.testing.assert_close(value, inner(x, indices_tuple=y).squeeze())


@pytest.mark.parametrize("module", [peers, miners, reducers, distances, regularizers, samplers])
def test_the_docs_name_every_class(module: Any) -> None:
    text = (Path(__file__).parents[2] / "docs" / "from-pml.md").read_text()
    missing = [name for name in public(module) if name not in text]
    assert not missing
