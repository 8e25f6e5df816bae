"""Scores of the embeddings of several models and of their concatenation, in one search.

The cosine of two concatenations is the mean of their parts' cosines. So the products of the parts are added
up, and the concatenation, whose product would cost as much as those of all parts, needs none of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.metrics._evaluate import (
    DEFAULT_METRICS,
    ResolvedMetrics,
    assemble_scores,
    evaluate,
    full_precision,
    rows_with_relevant_items,
)
from levelfield.metrics._filtered_search import (
    SearchRequest,
    block_buffers,
    fill_similarities,
    needs_full_sort,
    query_blocks,
    search_block,
)
from levelfield.metrics._inputs import EvaluationInputs, check_inputs
from levelfield.metrics._scores import Scores
from levelfield.metrics._vectors import rounding_error_bound

FAR_FROM_UNIT = 1e-5  # the cosines of parts whose lengths differ from 1 by more cannot be added up


def evaluate_concatenation(
    parts: Sequence[Tensor],
    labels: Any,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    galleries: Sequence[Tensor] | None = None,
    gallery_labels: Any = None,
    relevant: Any = None,
    ignore: Any = None,
    memory: int = 256 << 20,
) -> tuple[list[Scores], Scores]:
    """Score each of several models, and the concatenation of their unit embeddings, normalized again.

    Scores and values per query are those of :func:`evaluate`.

    Args:
        parts: Queries by each model, N x D.
        labels: N class labels.
        metrics: Metric names.
        galleries: Items to search by each model, M x D; see ``gallery`` of :func:`evaluate`.
        gallery_labels: See :func:`evaluate`.
        relevant: See :func:`evaluate`.
        ignore: See :func:`evaluate`.
        memory: Bytes that the similarities of one block may take.

    Returns:
        The scores of each model, and those of the concatenation, with values per query.

    Example:
        >>> one = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-0.6, 0.8]])
        >>> folds, whole = evaluate_concatenation([one, one], ["a", "a", "b", "b"])
        >>> folds[0]["precision_at_1"], whole["precision_at_1"]
        (0.5, 0.5)
    """
    resolved = ResolvedMetrics(metrics)
    given_labels = {"gallery_labels": gallery_labels, "relevant": relevant, "ignore": ignore}
    searched: Sequence[Tensor | None] = [None] * len(parts) if galleries is None else galleries
    sides = list(zip(parts, searched, strict=True))
    sides.append((_concatenate(parts), None if galleries is None else _concatenate(galleries)))
    if not resolved.retrieval or _unit_error(sides[:-1]) > FAR_FROM_UNIT:
        scores = [
            evaluate(
                queries, labels, gallery=items, metrics=metrics, per_query=True, memory=memory, **given_labels
            )
            for queries, items in sides
        ]
        return scores[:-1], scores[-1]
    with full_precision():
        given = [
            check_inputs(queries, labels, gallery=items, distance="cosine", **given_labels)
            for queries, items in sides
        ]
        tables = _search(given, resolved, sides, memory)
        scores = [
            assemble_scores(each, labels, resolved, table, per_query=True)
            for each, table in zip(given, tables, strict=True)
        ]
    return scores[:-1], scores[-1]


def _concatenate(parts: Sequence[Tensor]) -> Tensor:
    return F.normalize(torch.cat(list(parts), dim=1))


def _unit_error(sides: Sequence[tuple[Tensor, Tensor | None]]) -> float:
    """Return the largest distance of a row's length from 1; infinite if the rows are of half precision."""
    given = [rows for side in sides for rows in side if rows is not None]
    if any(rows.dtype not in (torch.float32, torch.float64) for rows in given):
        return torch.inf
    lengths = [torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64) for rows in given]
    return max(float((length - 1).abs().max().nan_to_num(torch.inf)) for length in lengths)


def _search(
    given: Sequence[EvaluationInputs],
    resolved: ResolvedMetrics,
    sides: Sequence[tuple[Tensor, Tensor | None]],
    memory: int,
) -> list[Tensor]:
    """Return for each part, and last for the concatenation, the values (metrics x N) of all queries."""
    requests = [SearchRequest(g.queries, g.gallery, g.relevance, resolved.retrieval, memory) for g in given]
    *parts, whole = requests
    rows = rows_with_relevant_items(whole.relevance)
    shape = (len(resolved.retrieval), len(whole.queries))
    tables = [torch.full(shape, torch.nan, dtype=torch.float64, device=rows.device) for _ in requests]
    slacks = [2 * rounding_error_bound(request.queries.source.shape[1] + 1) for request in parts]
    slacks.append(sum(slacks) + 2 * _error_of_sum(len(parts), _unit_error(sides[:-1])))
    for request in parts:
        request.gallery.cache()
    repeated = _repeated(sides[:-1])
    buffer, sums = block_buffers(whole, rows, 2)
    for block in query_blocks(whole, rows, len(buffer)):
        products, total = buffer[: len(block)], sums[: len(block)]
        filtered = not needs_full_sort(whole, block)
        for number, request in enumerate(requests):
            if filtered and request is whole:
                products = total
            elif filtered:
                if number not in repeated:
                    fill_similarities(request, block, products)
                total.copy_(products) if number == 0 else total.add_(products)
            if number in repeated:
                tables[number][:, block] = tables[number - 1][:, block]
                continue
            for some, hits in search_block(request, block, products, slack=slacks[number]):
                for place, metric in enumerate(resolved.retrieval):
                    tables[number][place, some] = metric.compute(hits)
    return tables


def _repeated(sides: Sequence[tuple[Tensor, Tensor | None]]) -> set[int]:
    """Return the numbers of models whose embeddings are those of the model before: frozen, without a head."""

    def equal(one: Tensor | None, other: Tensor | None) -> bool:
        return one is other or (one is not None and other is not None and torch.equal(one, other))

    return {n for n in range(1, len(sides)) if all(map(equal, sides[n - 1], sides[n]))}


def _error_of_sum(count: int, unit_error: float) -> float:
    """Return a bound for the error of a sum of ``count`` products, against ``count`` times the whole cosine.

    Rounding of the products is not part of it. Parts of other lengths than 1 have other shares of the
    concatenation; each of its rows is rounded once more; and the additions round.
    """
    ulp = 2.0**-24
    return count * (8 * unit_error + 8 * ulp + count * ulp)
