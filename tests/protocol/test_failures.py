"""A search learns from failed trials, and a method that fails completely does not stop the others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levelfield as lf
from levelfield.analysis import analyze, read_comparison
from levelfield.core.space import Float, Value
from levelfield.protocol import reproduce
from levelfield.protocol.search._optimizer import Observation, suggest
from levelfield.protocol.search._proposals import score_of_failure
from levelfield.reports import results_markdown

pytestmark = pytest.mark.slow

SPACE = {"lr": Float(1e-6, 1.0, log=True), "margin": Float(0.0, 1.0)}
PLUGIN = """
import torch
from torch import nn
import levelfield as lf

@lf.losses.register("hopeless", space={"margin": lf.Float(0.0, 1.0)})
class Hopeless(nn.Module):
    "Never finite."
    def __init__(self, margin: float = 0.5) -> None:
        super().__init__()
    def forward(self, embeddings, labels):
        return embeddings.sum() * torch.nan
"""


def score(point: dict[str, Value]) -> float | None:
    """Best at a learning rate of 0.01; training diverges above 0.03, which is a third of the range."""
    lr, margin = float(point["lr"]), float(point["margin"])
    return None if lr > 0.03 else -((math.log10(lr) + 2) ** 2) / 10 - (margin - 0.3) ** 2


def searched(sampler: str, seed: int, trials: int = 25) -> tuple[float, int]:
    """Return the best score, and the number of failures among the last ten trials."""
    points: list[dict[str, Value]] = []
    for number in range(trials):
        scores = [found for point in points if (found := score(point)) is not None]
        seen = [
            Observation(point, score_of_failure(scores) if score(point) is None else score(point) or 0.0)
            for point in points
        ]
        point = suggest(SPACE, seen, sampler=sampler, seed=seed, number=number)
        assert point is not None
        points.append(point)
    every = [score(point) for point in points]
    return max(s for s in every if s is not None), sum(s is None for s in every[-10:])


@pytest.mark.parametrize("sampler", ["gp", "tpe"])
def test_a_search_stays_away_from_where_trials_fail(sampler: str) -> None:
    seeds = range(3)
    learned = [searched(sampler, seed) for seed in seeds]
    random = [searched("random", seed) for seed in seeds]
    assert np.mean([best for best, _ in learned]) >= np.mean([best for best, _ in random])
    assert np.mean([failed for _, failed in learned]) < 4, "a third of random trials fails"


def test_a_method_that_fails_altogether_is_a_row_with_its_reason(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "hopeless.py").write_text(PLUGIN)
    tiny |= {"methods": ["hopeless", "triplet"]}
    tiny["plugins"] = [*tiny["plugins"], str(tmp_path / "hopeless.py")]
    comparison = read_comparison(lf.run(lf.Experiment.build(**tiny), tmp_path / "runs").path)
    failed, trained = comparison.trained
    assert failed.selection.failed and not failed.scores["concatenated"]["map_at_r"]
    assert trained.scores["concatenated"]["map_at_r"], "the other one goes on"
    assert "every trial failed" in results_markdown(analyze(tmp_path / "runs"))
    plugins = tuple(Path(file) for file in tiny["plugins"])
    again = reproduce(tmp_path / "runs", plugins=plugins, workers=0)
    assert {number.verdict for number in again.numbers} == {"identical"}, "a failed method is finished too"
