"""The sentence of a choice follows from verdicts and costs."""

from __future__ import annotations

import numpy as np
import pytest

from levelfield.analysis import (
    FULL,
    CodeScore,
    ModelChoice,
    ModelCost,
    ModelScores,
    compare_models,
    score_codes,
)
from levelfield.reports import choice_table, choice_text, render_choice_page

CLASSES = np.arange(400) // 10
HARD = np.random.default_rng(0).random(400) * 0.5


def model(gain: float, seed: int) -> ModelScores:
    noise = 0.05 * np.random.default_rng(seed).normal(size=400)
    return ModelScores({"map_at_r": (HARD + gain + noise)[None]})


def choice(gains: dict[str, float], speed: dict[str, float]) -> ModelChoice:
    compared = compare_models(
        {name: model(gain, n) for n, (name, gain) in enumerate(gains.items())}, classes=CLASSES
    )
    return ModelChoice(
        compared, {name: ModelCost(rate, 224, 128, 10**6, 4.0) for name, rate in speed.items()}
    )


@pytest.mark.parametrize(
    ("gains", "speed", "text"),
    [
        (
            {"a": 0.1, "b": 0.0},
            {"a": 10, "b": 40},
            "Use a: it beats every other model for sure. b is 4.0 times",
        ),
        ({"a": 0.1, "b": 0.0}, {"a": 10, "b": 9}, "Use a: it beats every other model for sure."),
        ({"a": 0.003, "b": 0.0}, {"a": 10, "b": 40}, "Use a; b is not worse for sure and 4.0 times as fast."),
        ({"a": 0.003, "b": 0.0}, {"a": 10, "b": 9}, "Use a; b may be as good, but not faster."),
        ({"a": 0.1}, {"a": 10}, "a is the only model that was scored: "),
    ],
)
def test_the_sentence(gains: dict[str, float], speed: dict[str, float], text: str) -> None:
    assert choice(gains, speed).text.startswith(text)


def test_models_that_no_other_beats() -> None:
    gains = {"best": 0.3, "middle": 0.2, "slow": 0.1, "quick": 0.0}
    found = choice(gains, {"best": 1, "middle": 5, "slow": 2, "quick": 9})
    assert found.undominated == ("best", "middle", "quick")
    assert choice({"a": 0.1, "b": 0.0}, {"a": 5, "b": 5}).undominated == ("a",)


def test_the_smallest_code_that_loses_next_to_nothing_is_named() -> None:
    found = choice({"a": 0.1, "b": 0.0}, {"a": 10, "b": 9})
    full = CodeScore(FULL, 512, 0.5, 0.0, None, None, "")
    good = CodeScore("int8", 128, 0.499, -0.001, -0.01, 0.01, "undecided")
    lossy = CodeScore("binary", 16, 0.4, -0.1, -0.3, 0.1, "undecided")
    shown = ModelChoice(found.comparison, found.costs, {"a": (full, good, lossy)})
    assert shown.text.endswith("Stored as int8, its embeddings are 4 times smaller (-0.10 points).")
    assert "Stored" not in ModelChoice(found.comparison, found.costs, {"a": (full, lossy)}).text


def test_codes_are_judged_against_the_full_embeddings() -> None:
    noise = np.random.default_rng(1).normal(size=(2, 400))
    values = {
        FULL: {"map_at_r": HARD},
        "same": {"map_at_r": HARD.copy()},
        "worse": {"map_at_r": HARD - 0.1 + 0.01 * noise[0]},
        "noisy": {"map_at_r": HARD + 0.3 * noise[1]},
    }
    found = score_codes(values, dict.fromkeys(values, 8), classes=CLASSES, metric="map_at_r")
    verdicts = {code.name: code.verdict for code in found}
    assert verdicts == {FULL: "", "same": "equivalent", "worse": "worse", "noisy": "undecided"}
    worse = found[2]
    assert worse.low is not None and worse.high is not None
    assert worse.low < worse.difference < worse.high < 0


def test_tables_and_page_show_everything() -> None:
    found = choice({"a<b": 0.1, "c": 0.0}, {"a<b": 10, "c": 40})
    heads = [column.head for column in choice_table(found).columns]
    assert heads[-7:] == ["images/s", "pixels", "parameters (M)", "MB", "numbers", "kB", "best trade"]
    assert "| c |" in choice_text(found) and found.text.replace("<", "&lt;") in choice_text(found)
    page = render_choice_page(found)
    assert "a&lt;b" in page and "<b>Use a&lt;b" in page and "Quality against speed" in page
