"""Scores of a concatenation from the products of its parts equal those of its own products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from levelfield.metrics import _concatenation, evaluate, evaluate_concatenation
from levelfield.metrics._evaluate import ResolvedMetrics
from levelfield.metrics._filtered_search import SearchRequest, fill_similarities
from levelfield.metrics._inputs import check_inputs
from levelfield.metrics._vectors import rounding_error_bound

NAMES = ("precision_at_1", "r_precision", "map_at_r", "recall_at_8", "mrr", "rho")


def models(
    count: int = 3, *, rows: int = 700, spread: float = 1.0, ties: bool = False
) -> tuple[list[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    labels = torch.randint(0, 40, (rows,), generator=generator)
    base = torch.randn(40, 16, generator=generator)[labels]
    parts = []
    for _ in range(count):
        part = 1 + spread * (base + torch.randn(rows, 16, generator=generator))
        if ties:
            part = (part / spread).round() + 0.5
            part[rows // 2 :] = part[: rows - rows // 2]
        parts.append(F.normalize(part))
    return parts, labels


def check_equal(found, expected):
    assert dict(found) == dict(expected)
    assert found.per_query.keys() == expected.per_query.keys()
    for name, values in expected.per_query.items():
        assert np.array_equal(found.per_query[name], values, equal_nan=True)


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("ties", [False, True])
def test_all_scores_are_those_of_evaluate(spread, ties):
    parts, labels = models(spread=spread, ties=ties)
    folds, whole = evaluate_concatenation(parts, labels, metrics=NAMES)
    for fold, part in zip(folds, parts, strict=True):
        check_equal(fold, evaluate(part, labels, metrics=NAMES, per_query=True))
    expected = evaluate(F.normalize(torch.cat(parts, 1)), labels, metrics=NAMES, per_query=True)
    check_equal(whole, expected)


def test_queries_and_gallery_may_differ_and_items_be_ignored():
    parts, labels = models(2)
    query, gallery = torch.arange(700) % 3 == 0, torch.arange(700) % 2 == 0
    ignore = [[int(n) % 350] for n in range(int(query.sum()))]
    given: dict[str, Any] = {"gallery_labels": labels[gallery], "ignore": ignore, "metrics": NAMES[:4]}
    folds, whole = evaluate_concatenation(
        [part[query] for part in parts], labels[query], galleries=[part[gallery] for part in parts], **given
    )
    for found, rows in zip([*folds, whole], [*parts, F.normalize(torch.cat(parts, 1))], strict=True):
        expected = evaluate(rows[query], labels[query], gallery=rows[gallery], per_query=True, **given)
        check_equal(found, expected)


def test_equal_parts_are_searched_once(monkeypatch):
    parts, labels = models(2)
    parts = [parts[0], parts[0].clone(), parts[1], parts[0]]
    filled = []

    def fill(*given):
        filled.append(given)
        fill_similarities(*given)

    monkeypatch.setattr(_concatenation, "fill_similarities", fill)
    folds, whole = evaluate_concatenation(parts, labels, metrics=NAMES)
    assert len(filled) == 3
    for found, rows in zip([*folds, whole], [*parts, F.normalize(torch.cat(parts, 1))], strict=True):
        check_equal(found, evaluate(rows, labels, metrics=NAMES, per_query=True))


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_parts_that_are_not_unit_vectors_are_searched_one_by_one(scale, monkeypatch):
    parts, labels = models(2)
    parts[0] = parts[0] * scale
    searched = []

    def search(given, resolved, *_):
        searched.append(given)
        return [None] * 3

    monkeypatch.setattr(_concatenation, "_search", search)
    monkeypatch.setattr(_concatenation, "assemble_scores", lambda *_, **__: None)
    _, whole = evaluate_concatenation(parts, labels)
    assert bool(searched) == (scale == 1.0)
    if scale != 1.0:
        check_equal(whole, evaluate(F.normalize(torch.cat(parts, 1)), labels, per_query=True))


@pytest.mark.parametrize("bend", [0.0, 5e-6])
def test_the_sum_of_products_is_within_its_bound(bend):
    """Lengths may differ from 1 by as much as the bound allows."""
    parts, labels = models(4)
    parts = [part * (1 + bend * (-1) ** n) for n, part in enumerate(parts)]
    whole = F.normalize(torch.cat(parts, 1)).double()
    whole = whole / whole.norm(dim=1, keepdim=True)
    total = torch.zeros(700, 704)
    out = torch.zeros(700, 704)
    for part in parts:
        given = check_inputs(part, labels, None, None, distance="cosine")
        request = SearchRequest(
            given.queries, given.gallery, given.relevance, ResolvedMetrics(["map_at_r"]).retrieval, 1 << 28
        )
        fill_similarities(request, torch.arange(700), out)
        total += out
    error = (total[:, :700].double() - 4 * whole @ whole.T)[~torch.eye(700, dtype=torch.bool)].abs().max()
    sides = [(part, None) for part in parts]
    bound = 4 * rounding_error_bound(17) + _concatenation._error_of_sum(4, _concatenation._unit_error(sides))
    assert 0 < float(error) <= bound
    if bend:  # the bound is not far too wide either
        assert float(error) > bound / 20
