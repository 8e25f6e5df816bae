"""The simulation of false alarms runs, and its rate is near 5% with clustered queries."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.statistics.model_alarms import called_different, draw_embeddings, draw_values, over_queries
from levelfield.analysis import ModelScores, compare_models


@pytest.mark.slow
def test_two_equal_models_are_seldom_told_apart() -> None:
    """200 simulations: 5% give 10 alarms on average, 22 or more with probability 0.0003."""
    rng = np.random.default_rng(7)
    alarms = naive = 0
    for _ in range(200):
        values, classes = draw_values(rng, 30, 20, 0.3, "hits")
        models = {name: ModelScores({"map_at_r": row[None]}) for name, row in zip("ab", values, strict=True)}
        alarms += called_different(compare_models(models, classes=classes, equivalence=0))
        naive += over_queries(values)
    assert alarms < 22, alarms
    assert naive > 30, "queries of a class are alike, so a test over queries is wrong"


def test_embeddings_go_the_whole_way() -> None:
    values, classes, comparison = draw_embeddings(np.random.default_rng(0), 8, 5, "MAP@R")
    assert values.shape == (2, 40) and len(classes) == 40 and len(comparison.pairs) == 1
