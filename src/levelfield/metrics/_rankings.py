"""Scores of rankings: lists of retrieved ids per query, as any search system returns them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from levelfield.core.errors import UsageError
from levelfield.metrics._registry import resolve_metric
from levelfield.metrics._relevance import RelevantHits


def score_rankings(
    rankings: Sequence[Sequence[Hashable]],
    relevant: Sequence[Collection[Hashable]],
    metrics: Sequence[str],
    *,
    ignore: Sequence[Collection[Hashable]] | None = None,
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the value of each retrieval metric for each query (Q).

    A relevant item that a list does not hold counts as not found. So lists should be as long as the metrics
    read: K, or the number of relevant items for MAP@R.

    Args:
        rankings: Retrieved ids of each query, best first. Lists may differ in length.
        relevant: Ids of the relevant items of each query. A query without any is NaN.
        metrics: Names of retrieval metrics, such as "map_at_100" or "recall_at_10".
        ignore: Ids to remove from each query's list before it is scored, such as the query itself.

    Raises:
        UsageError: Lists and queries differ in number, a list holds an id twice, or a metric is not one of
            rankings.

    Example:
        >>> score_rankings([["b", "a", "c"], ["c"]], [{"a", "c"}, {"c"}], ["precision_at_1", "recall_at_2"])
        {'precision_at_1': array([0., 1.]), 'recall_at_2': array([1., 1.])}
    """
    if not hasattr(rankings, "__len__") or isinstance(rankings, str | bytes | Mapping):
        raise UsageError(f"rankings are of type {type(rankings).__name__}; give one list of ids per query")
    _check_lists("relevant", relevant)
    if ignore is not None:
        _check_lists("ignore", ignore)
    if len(rankings) != len(relevant):
        raise UsageError(
            f"there are {len(rankings)} rankings but {len(relevant)} queries; give one per query"
        )
    if ignore is not None and len(ignore) != len(relevant):
        raise UsageError(f"ignore has {len(ignore)} entries for {len(relevant)} queries; give one per query")
    resolved = [resolve_metric(name) for name in metrics]
    for metric in resolved:
        if metric.card.kind != "retrieval":
            raise UsageError(f"{metric.name} needs embeddings; choose a retrieval metric for rankings")
    row: list[int] = []
    rank: list[int] = []
    nth: list[int] = []
    counts, longest = [], 0
    first: Hashable = None
    scored = [query for query, wanted in enumerate(relevant) if len(wanted)]
    if not scored:
        raise UsageError("no query has a relevant item; check the ids of the relevant items")
    for place, query in enumerate(scored):
        wanted = set(relevant[query])
        hidden = set(ignore[query]) if ignore is not None else set()
        if both := wanted & hidden:
            raise UsageError(
                f"query {query} lists {min(both, key=str)!r} as relevant and as ignored; remove it from "
                "one of the two lists"
            )
        shown = [item for item in _as_ids(rankings[query], query) if item not in hidden]
        found = [at for at, item in enumerate(shown, start=1) if item in wanted]
        row += [place] * len(found)
        rank += found
        nth += range(1, len(found) + 1)
        counts.append(len(wanted))
        longest = max(longest, len(shown))
        first = first or (shown[0] if shown else None)
    if not row and first is not None:
        _check_types(first, next(iter(relevant[scored[0]])))
    hits = RelevantHits(
        row=torch.tensor(row, dtype=torch.int64),
        rank=torch.tensor(rank, dtype=torch.int64),
        nth=torch.tensor(nth, dtype=torch.int64),
        relevant=torch.tensor(counts),
        gallery=longest,
    )
    values = {}
    for metric in resolved:
        values[metric.name] = np.full(len(relevant), np.nan)
        values[metric.name][scored] = metric.compute(hits).numpy()
    return values


def _check_lists(name: str, lists: Any) -> None:
    plain = hasattr(lists, "__len__") and not isinstance(lists, str | bytes | Mapping)
    wrong = (
        next((own for own in lists if isinstance(own, str) or not hasattr(own, "__len__")), None)
        if plain
        else lists
    )
    if wrong is not None:
        raise UsageError(f"{name} holds {wrong!r}, not lists of ids; give one list per query")


def _check_types(found: Hashable, wanted: Hashable) -> None:
    """Raise UsageError if nothing was found because one side holds texts and the other numbers."""
    if isinstance(found, str) != isinstance(wanted, str):
        raise UsageError(
            f"rankings hold ids such as {found!r}, relevant items are such as {wanted!r}; give both as texts "
            "or both as numbers"
        )


def _as_ids(ranking: Any, query: int) -> list[Hashable]:
    if isinstance(ranking, str | bytes):
        raise UsageError(f"the ranking of query {query} is a string; give a list of ids")
    if not isinstance(ranking, Iterable):
        raise UsageError(f"the ranking of query {query} is {ranking!r}; give a list of ids")
    ids = ranking.tolist() if isinstance(ranking, np.ndarray | torch.Tensor) else list(ranking)
    try:
        distinct = len(set(ids))
    except TypeError as error:
        raise UsageError(f"the ranking of query {query} is not a list of ids ({error}); give ids") from error
    if distinct < len(ids):
        twice = next(item for n, item in enumerate(ids) if item in ids[:n])
        raise UsageError(f"the ranking of query {query} holds {twice!r} twice; remove repeated ids")
    return ids
