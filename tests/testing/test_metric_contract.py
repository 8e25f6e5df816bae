"""The metric checks pass for all registered metrics and find the problems of broken ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield import metrics
from levelfield.metrics import Contingency, EmbeddingSpace, RelevantHits
from levelfield.testing import check_metric


@pytest.mark.parametrize("name", metrics.registry.names())
def test_every_registered_metric_keeps_the_contract(name: str) -> None:
    check_metric(name)


@pytest.fixture(autouse=True)
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove the metrics that a test registers."""
    metrics.registry.names()
    monkeypatch.setattr(metrics.registry, "_entries", dict(metrics.registry._entries))
    yield


GOOD: dict[str, Any] = {"higher_is_better": True, "label": "Test", "unit": "percent"}


def problems(name: str) -> str:
    with pytest.raises(AssertionError) as caught:
        check_metric(name)
    return str(caught.value)


def test_a_metric_of_a_users_own_is_checked_and_evaluated() -> None:
    @metrics.register("first_is_right", depth=1, **GOOD)
    def first_is_right(hits: RelevantHits) -> Tensor:
        """Count a hit on the nearest item."""
        return hits.count(hits.rank == 1)

    check_metric("first_is_right")
    scores = metrics.evaluate(torch.eye(4), [0, 0, 1, 1], metrics=("first_is_right", "precision_at_1"))
    assert scores["first_is_right"] == scores["precision_at_1"]


def test_a_metric_that_looks_further_than_it_says() -> None:
    @metrics.register("too_deep", depth=1, **GOOD)
    def too_deep(hits: RelevantHits) -> Tensor:
        """Looks at the whole ranking."""
        return hits.total(1.0 / hits.rank, hits.rank > 0) / hits.relevant

    assert "deeper ranks than its card declares" in problems("too_deep")


def test_a_metric_with_the_wrong_direction_unit_and_label() -> None:
    @metrics.register("upside_down", depth="r", higher_is_better=False, unit="percent")
    def upside_down(hits: RelevantHits) -> Tensor:
        """Two more than the number of relevant items among the nearest R."""
        return hits.count(hits.rank <= hits.relevant[hits.row]) + 2

    text = problems("upside_down")
    assert "its card says that lower is better" in text
    assert 'the label "upside_down" is not suitable for tables' in text
    assert "not between 0 and 1" in text


def test_a_metric_that_gives_one_number_for_all_queries() -> None:
    @metrics.register("one_for_all", depth="r", **GOOD)
    def one_for_all(hits: RelevantHits) -> Tensor:
        """The mean over the block, which depends on its size."""
        return (hits.count(hits.rank <= hits.relevant[hits.row]) / hits.relevant).mean()

    text = problems("one_for_all")
    assert "not float64" in text
    assert "depend on the number of queries per call" in text


def test_metrics_that_are_random_or_not_finite_or_undocumented() -> None:
    @metrics.register("dice", kind="clustering", **GOOD)
    def dice(table: Contingency) -> float:
        """A random number."""
        return float(torch.rand(()))

    @metrics.register("nothing", kind="structure", label="Nothing")
    def nothing(space: EmbeddingSpace) -> float:
        """Never a number."""
        return float("nan")

    @metrics.register("silent", kind="structure", label="Silent")
    def silent(space: EmbeddingSpace) -> float:
        return 0.0

    assert "draws from a global random generator" in problems("dice")
    assert "not a finite number" in problems("nothing")
    assert "there is no summary" in problems("silent")
