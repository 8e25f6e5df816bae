"""Choice of the queries that a retrieval gallery shows, by fixed rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from levelfield.core.seeds import numpy_generator
from levelfield.records import GalleryQuery

Array = np.ndarray[Any, Any]


def choose_queries(
    scores: Mapping[str, Array], asked: Array, *, count: int, name: str
) -> tuple[GalleryQuery, ...]:
    """Choose a third at random, a third hardest by the mean over methods, a third where methods differ most.

    Queries without a score (no other image of their class) are not chosen. Ties go to the first query; no
    query is chosen twice.

    Args:
        scores: Value of each query (q) by method; higher is better, NaN if there is none.
        asked: Rows of the queries (q).
        count: Number of queries to choose.
        name: Name of the random stream.

    Example:
        >>> scores = {"a": np.array([0.9, 0.1, 1.0]), "b": np.array([0.8, 0.2, 0.0])}
        >>> [(q.row, q.why) for q in choose_queries(scores, np.array([5, 6, 7]), count=3, name="x")]
        [(5, 'random'), (6, 'hardest'), (7, 'differs')]
    """
    table = np.array([scores[method] for method in scores]) if scores else np.zeros((1, len(asked)))
    usable = np.flatnonzero(np.isfinite(table).all(axis=0))
    hardest, differing = (count // 3, count // 3) if scores else (0, 0)
    chosen: dict[int, GalleryQuery] = {}

    def take(order: Array, number: int, why: str) -> None:
        for at in [at for at in order.tolist() if at not in chosen][:number]:
            between = None
            if why == "differs":
                methods = list(scores)
                between = (methods[int(table[:, at].argmax())], methods[int(table[:, at].argmin())])
            chosen[at] = GalleryQuery.model_validate({"row": asked[at], "why": why, "between": between})

    take(numpy_generator("gallery", name).permutation(usable), count - hardest - differing, "random")
    if scores:
        take(usable[np.argsort(table[:, usable].mean(axis=0), kind="stable")], hardest, "hardest")
    if len(scores) > 1:
        spread = np.ptp(table[:, usable], axis=0)
        order = usable[np.argsort(-spread, kind="stable")]
        take(order[np.sort(-spread, kind="stable") < 0], differing, "differs")
    return tuple(chosen.values())
