"""Pairs that several experiments tell apart are counted by direction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from levelfield.analysis import analyze, find_repeated_pairs

Writer = Callable[..., Path]


@pytest.mark.slow
def test_pairs_are_sorted_by_agreement(write_experiment: Writer) -> None:
    first = {"contrastive": 0.6, "triplet": 0.5, "arcface": 0.4, "margin": 0.4, "untrained": 0.1}
    second = {"contrastive": 0.6, "triplet": 0.4, "arcface": 0.5, "margin": 0.3999, "untrained": 0.1}
    roots = [write_experiment("one", means=first), write_experiment("other", means=second)]
    found = find_repeated_pairs([analyze(root) for root in roots])
    assert set(found.same) == {
        ("contrastive", "triplet"),
        ("contrastive", "arcface"),
        ("contrastive", "margin"),
    }
    assert set(found.opposite) == {("triplet", "arcface")}
    assert set(found.some) == {("triplet", "margin"), ("arcface", "margin")} and found.never == 0
    assert found.sentences == [
        "Of 6 pairs of methods, 3 were told apart in both experiments in the same direction, 2 in some only, "
        "0 in none.",
        "Told apart in opposite directions: 1.",
    ]
