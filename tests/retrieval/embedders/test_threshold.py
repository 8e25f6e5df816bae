"""The false-accept rate of the threshold holds on new data."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from levelfield.core.errors import UsageError
from levelfield.retrieval.embedders import calibrate_threshold


def population(classes: int, *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(4)
    centers = torch.randn(classes, 16, generator=generator)
    vectors = centers[labels] + 0.5 * torch.randn(len(labels), 16, generator=generator)
    return F.normalize(vectors, dim=1), labels


def slow(vectors: torch.Tensor, labels: torch.Tensor, threshold: float) -> tuple[float, float]:
    """Return the shares of false and true accepts, computed one query at a time."""
    false, true = 0, 0
    for query in range(len(vectors)):
        similarities = [float(vectors[query] @ other) for other in vectors]
        others = [s for s, label in zip(similarities, labels, strict=True) if label != labels[query]]
        own = [s for row, s in enumerate(similarities) if labels[row] == labels[query] and row != query]
        false += max(others) >= threshold
        true += max(own) >= threshold
    return false / len(vectors), true / len(vectors)


def left_out(vectors: torch.Tensor, labels: torch.Tensor, above: int) -> float:
    """Return the share accepted when each class is tested with a threshold of the others.

    ``above`` impostors of the other classes lie above that threshold.
    """
    accepted = 0
    for missing in set(labels.tolist()):
        kept = labels != missing
        rest, theirs = vectors[kept], labels[kept]
        best = (rest @ rest.T).masked_fill(theirs[:, None] == theirs[None, :], -2).amax(1)
        edge = sorted(best.tolist(), reverse=True)[above]
        accepted += int(((vectors[~kept] @ rest.T).amax(1) > edge + 1e-6).sum())
    return accepted / len(vectors)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3])
def test_classes_left_out_keep_the_rate_and_no_lower_threshold_would(rate: float) -> None:
    vectors, labels = population(50, seed=0)
    found = calibrate_threshold(vectors, labels, false_accept_rate=rate)
    assert slow(vectors, labels, found.similarity)[1] == pytest.approx(found.true_accept_rate, abs=1e-6)
    strangers = (vectors @ vectors.T).masked_fill(labels[:, None] == labels[None, :], -2).amax(1)
    ranked = sorted(strangers.tolist(), reverse=True)
    places = [n for n, value in enumerate(ranked) if abs(value - found.similarity) < 1e-6]  # pairs are equal
    assert any(left_out(vectors, labels, above) <= rate for above in places)
    below = places[-1] + 1
    assert left_out(vectors, labels, below) > rate or (below + 1) / (len(vectors) + 1) > rate


def families(classes: int, *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return classes that are similar in groups and differ in spread; the rate is hard to keep for them."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(12)
    parents = torch.randn(classes // 4, 32, generator=generator)
    parents = parents[torch.randint(classes // 4, (classes,), generator=generator)]
    centers = 0.75 * parents + 0.66 * torch.randn(classes, 32, generator=generator)
    spread = 0.3 + 0.5 * torch.rand(classes, 1, generator=generator)
    vectors = centers[labels] + spread[labels] * torch.randn(len(labels), 32, generator=generator)
    return F.normalize(vectors, dim=1), labels


def test_new_classes_are_accepted_as_seldom_as_stated() -> None:
    rates = []
    for seed in range(40):
        vectors, labels = families(50, seed=seed)
        known = torch.isin(labels, torch.randperm(50, generator=torch.Generator().manual_seed(seed))[:25])
        found = calibrate_threshold(vectors[known], labels[known], false_accept_rate=0.1)
        best = (vectors[~known] @ vectors[known].T).amax(1)
        rates.append(float((best >= found.similarity).float().mean()))
    assert 0.08 < sum(rates) / len(rates) < 0.11


@pytest.mark.parametrize(("classes", "images"), [(5, 20), (24, 2000), (30, 90)])
def test_too_few_images_or_classes_cannot_guarantee_a_small_rate(classes: int, images: int) -> None:
    vectors = torch.randn(images, 8, generator=torch.Generator().manual_seed(0))
    with pytest.raises(UsageError, match="give at least 99 of 25 classes, or a higher rate"):
        calibrate_threshold(vectors, torch.arange(images) % classes, false_accept_rate=0.01)


def test_where_two_classes_are_the_same_a_rate_may_be_out_of_reach() -> None:
    vectors, labels = population(25, seed=0)
    # Two classes that find each other, whatever the others' threshold is.
    vectors[labels == 3] = vectors[labels == 4][0]
    with pytest.raises(UsageError, match=r"the strictest threshold of all others accepts 8\.0%"):
        calibrate_threshold(vectors, labels, false_accept_rate=0.02)


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0])
def test_an_invalid_rate_is_rejected(rate: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        calibrate_threshold(*population(5, seed=0), false_accept_rate=rate)


def test_one_class_cannot_calibrate() -> None:
    with pytest.raises(UsageError, match="of 3 classes"):
        calibrate_threshold(torch.eye(4), torch.zeros(4, dtype=torch.int64), false_accept_rate=0.3)
