"""Metrics agree with the same metrics of other libraries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    adjusted_mutual_info_score,
    normalized_mutual_info_score,
    pair_confusion_matrix,
)

from levelfield.metrics import evaluate
from levelfield.metrics._clusters import contingency
from levelfield.metrics.clustering import ami, f1, nmi

accuracy = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
OURS = {
    "precision_at_1": "precision_at_1",
    "r_precision": "r_precision",
    "mean_average_precision_at_r": "map_at_r",
    "mean_average_precision": "map",
    "mean_reciprocal_rank": "mrr",
}


@pytest.mark.parametrize("exclude_self", [True, False])
def test_retrieval_agrees_with_pytorch_metric_learning(exclude_self):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 20, (300,), generator=generator)
    rows = torch.randn(20, 8, generator=generator)[labels] + torch.randn(300, 8, generator=generator)
    rows = torch.nn.functional.normalize(rows)
    theirs = accuracy.AccuracyCalculator(include=tuple(OURS), k=None, device=torch.device("cpu"))
    if exclude_self:
        expected = theirs.get_accuracy(rows, labels)
        scores = evaluate(rows, labels, metrics=tuple(OURS.values()))
    else:
        queries, gallery = slice(0, 100), slice(100, 300)
        expected = theirs.get_accuracy(rows[queries], labels[queries], rows[gallery], labels[gallery])
        scores = evaluate(
            rows[queries],
            labels[queries],
            gallery=rows[gallery],
            gallery_labels=labels[gallery],
            metrics=tuple(OURS.values()),
        )
    for name, ours in OURS.items():
        assert scores[ours] == pytest.approx(expected[name], abs=1e-6), name


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("classes", "clusters"), [(1, 1), (1, 5), (7, 1), (4, 9), (40, 40), (200, 150)])
def test_agreement_of_labelings_is_what_scikit_learn_says(seed, classes, clusters):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, 200)
    found = np.where(random.random(200) < 0.5, labels % clusters, random.integers(0, clusters, 200))
    table = contingency(labels, found)
    assert nmi(table) == pytest.approx(normalized_mutual_info_score(labels, found), abs=1e-9)
    assert ami(table) == pytest.approx(adjusted_mutual_info_score(labels, found), abs=1e-9)
    (_, false_positive), (false_negative, true_positive) = pair_confusion_matrix(labels, found)
    total = 2 * true_positive + false_positive + false_negative
    assert f1(table) == pytest.approx(2 * true_positive / total if total else 1.0)
