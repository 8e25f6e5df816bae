"""Scores of search systems from their rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield.analysis import ModelScores
from levelfield.core.errors import LevelfieldError, UsageError
from levelfield.metrics import score_rankings


@dataclass(frozen=True)
class RankedModels:
    """Scores by system, and the reason for each system that has none."""

    models: dict[str, ModelScores]
    left_out: dict[str, str]


def score_ranked_models(
    rankings: Mapping[str, Any],
    *,
    labels: Any,
    gallery_labels: Any,
    relevant: Sequence[Any] | None,
    metrics: Sequence[str],
    inputs: Any,
    ignore: Sequence[Any] | None = None,
) -> RankedModels:
    """Score the rankings of each system; see :func:`levelfield.evaluate` for the arguments."""
    if not isinstance(rankings, Mapping):
        raise UsageError(
            f"rankings are of type {type(rankings).__name__}; give a mapping from names of systems to lists"
        )
    known = gallery_labels if isinstance(gallery_labels, Mapping) else None
    if relevant is None:
        if labels is None or known is None:
            raise UsageError(
                "rankings need to know what is relevant; give relevant=, or labels= and gallery_labels= "
                "(a mapping from ids to classes)"
            )
        by_class: dict[Any, set[Any]] = {}
        for item, own in known.items():
            by_class.setdefault(own, set()).add(item)
        relevant = [by_class.get(own, set()) for own in np.asarray(labels).tolist()]
        if ignore is not None and len(ignore) == len(relevant):  # such as the query itself
            relevant = [own - set(hidden) for own, hidden in zip(relevant, ignore, strict=True)]
    elif known is not None:
        _check_known(relevant, known, "relevant")
    if ignore is not None and known is not None:
        _check_known(ignore, known, "ignore")
    models, left_out = {}, {}
    for name, given in rankings.items():
        try:
            lists = _lists(given, inputs, name)
            if known is not None:
                _check_known(lists, known, f"the ranking of {name}")
            values = score_rankings(lists, relevant, metrics, ignore=ignore)
        except LevelfieldError as error:
            text = str(error)
            left_out[name] = text if name in text else f"{name}: {text}"
            continue
        models[name] = ModelScores({metric: each[None] for metric, each in values.items()})
    if not models:
        raise UsageError(next(iter(left_out.values()), "rankings is empty; give at least one system"))
    return RankedModels(models, left_out)


def _lists(given: Any, inputs: Any, name: str) -> Sequence[Any]:
    if not callable(given):
        lists: Sequence[Any] = given
        return lists
    if inputs is None or not len(inputs):
        raise UsageError(f"{name} is a function; give its queries with inputs=")
    found = []
    for number, query in enumerate(inputs):
        try:
            found.append(list(given(query)))
        except Exception as error:  # it is the user's function: any error of it is about this system only
            raise UsageError(f"{name} failed on query {number}: {type(error).__name__}: {error}") from error
    return found


def _check_known(lists: Sequence[Any], known: Mapping[Any, Any], what: str) -> None:
    for query, items in enumerate(lists):
        strange = next((item for item in items if item not in known), None)
        if strange is not None:
            raise UsageError(
                f"{what}, query {query}, holds {strange!r}, which gallery_labels does not; add or remove it"
            )
