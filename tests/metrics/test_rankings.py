"""Rankings of any search system get the scores that the same embeddings get."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from levelfield.core.errors import UsageError
from levelfield.metrics import evaluate, score_rankings

METRICS = ("precision_at_1", "map_at_r", "recall_at_4", "map_at_10", "ndcg_at_5", "mrr", "map", "r_precision")


@pytest.mark.parametrize("seed", range(3))
def test_a_full_ranking_scores_as_its_embeddings_do(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = random.integers(12, size=90)  # some classes are alone
    rows = random.normal(size=(12, 5))[labels] + random.normal(size=(90, 5))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    order = np.argsort(-(unit @ unit.T), axis=1)
    relevant = [set(np.flatnonzero(labels == own).tolist()) - {row} for row, own in enumerate(labels)]
    found = score_rankings(order.tolist(), relevant, METRICS, ignore=[{row} for row in range(90)])
    expected = evaluate(rows, labels, metrics=METRICS, per_query=True).per_query
    for name in METRICS:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-12, err_msg=name)


def test_short_lists_count_what_is_missing_as_not_found() -> None:
    found = score_rankings([["x"], [], ["b", "x"]], [["x", "y"], ["x"], []], ["map_at_r", "recall_at_1"])
    np.testing.assert_allclose(found["map_at_r"], [0.5, 0.0, np.nan])
    np.testing.assert_allclose(found["recall_at_1"], [1.0, 0.0, np.nan])


def test_lists_that_cannot_be_scored_are_refused() -> None:
    mistakes: list[tuple[Any, Any, list[str], str]] = [
        ([["a"]], [["a"], ["b"]], ["mrr"], "1 rankings but 2 queries"),
        ([["a", "b", "a"]], [["a"]], ["mrr"], "query 0 holds 'a' twice"),
        (["abc"], [["a"]], ["mrr"], "is a string"),
        ([[["a"]]], [["a"]], ["mrr"], "not a list of ids"),
        ([["a"]], [["a"]], ["nmi"], "nmi needs embeddings"),
        ([["a"]], [[]], ["mrr"], "no query has a relevant item"),
        ([None], [["a"]], ["mrr"], "the ranking of query 0 is None; give a list of ids"),
        ([["a"]], ["a"], ["mrr"], "relevant holds 'a', not lists of ids"),
        ([["a"]], 3, ["mrr"], "relevant holds 3, not lists of ids"),
        (5, [["a"]], ["mrr"], "rankings are of type int; give one list of ids per query"),
        ([[1, 2]], [["1"]], ["mrr"], "ids such as 1, relevant items are such as '1'"),
    ]
    for lists, relevant, metrics, message in mistakes:
        with pytest.raises(UsageError, match=message):
            score_rankings(lists, relevant, metrics)
    with pytest.raises(UsageError, match="ignore has 2 entries"):
        score_rankings([["a"]], [["a"]], ["mrr"], ignore=[[], []])
    with pytest.raises(UsageError, match="query 0 lists 'a' as relevant and as ignored"):
        score_rankings([["a"]], [["a"]], ["mrr"], ignore=[["a"]])
