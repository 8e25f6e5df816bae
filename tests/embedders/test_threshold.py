"""The threshold keeps its promise about false accepts, on data that it was not calibrated on."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from levelfield.embedders import calibrate
from levelfield.errors import UsageError


def population(classes: int, *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(4)
    centres = torch.randn(classes, 16, generator=generator)
    vectors = centres[labels] + 0.5 * torch.randn(len(labels), 16, generator=generator)
    return F.normalize(vectors, dim=1), labels


def slow(vectors: torch.Tensor, labels: torch.Tensor, threshold: float) -> tuple[float, float]:
    """The shares of false and of true accepts, one query at a time."""
    false, true = 0, 0
    for query in range(len(vectors)):
        similarities = [float(vectors[query] @ other) for other in vectors]
        others = [s for s, label in zip(similarities, labels, strict=True) if label != labels[query]]
        own = [s for row, s in enumerate(similarities) if labels[row] == labels[query] and row != query]
        false += max(others) >= threshold
        true += max(own) >= threshold
    return false / len(vectors), true / len(vectors)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
def test_on_its_own_data_the_rate_is_kept_and_no_lower_threshold_would_keep_it(rate: float) -> None:
    vectors, labels = population(50, seed=0)
    found = calibrate(vectors, labels, false_accept_rate=rate)
    false, true = slow(vectors, labels, found.similarity)
    assert false <= rate
    assert true == pytest.approx(found.true_accept_rate, abs=1e-6)
    assert slow(vectors, labels, found.similarity - 1e-6)[0] >= rate - 2 / len(vectors)


def test_on_fresh_data_the_rate_is_kept_on_average() -> None:
    rates = []
    for seed in range(20):
        found = calibrate(*population(50, seed=seed), false_accept_rate=0.1)
        rates.append(slow(*population(50, seed=1000 + seed), found.similarity)[0])
    assert sum(rates) / len(rates) < 0.13


def test_too_few_queries_cannot_promise_a_small_rate() -> None:
    vectors, labels = population(5, seed=0)
    with pytest.raises(UsageError, match="give at least 99"):
        calibrate(vectors, labels, false_accept_rate=0.01)


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        calibrate(*population(5, seed=0), false_accept_rate=rate)


def test_one_class_cannot_calibrate() -> None:
    with pytest.raises(UsageError, match="two classes"):
        calibrate(torch.eye(4), torch.zeros(4, dtype=torch.int64))
