"""Miners draw what the public code of "Revisiting Training Strategies" draws, as often.

With two samples per class, as in its experiments, its one triplet per anchor is our one per positive pair.
The loops below were written from what that code does; they are not that code.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield import miners

DRAWS = 200
CUTOFF, MARGIN, SWITCH = 0.5, 0.2, 0.35
Chances = dict[int, float]


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    labels = torch.arange(16) // 2
    centers = torch.randn(8, 4, generator=generator, dtype=torch.float64)
    return F.normalize(centers[labels] + 0.9 * torch.randn(16, 4, generator=generator).double()), labels


def evenly(choices: list[int]) -> Chances:
    return {each: 1 / len(choices) for each in choices}


def semihard(d: list[float], positive: int, negatives: list[int]) -> Chances:
    inside = [n for n in negatives if d[positive] < d[n] < d[positive] + MARGIN]
    return evenly(inside or negatives)


def softhard(d: list[float], positive: int, negatives: list[int]) -> Chances:
    return evenly([n for n in negatives if d[n] < d[positive]] or negatives)


def distance_weighted(d: list[float], positive: int, negatives: list[int]) -> Chances:
    """The weights are 1 / q of distances of at least the cutoff, in four dimensions; none is left out."""
    weights = {}
    for n in negatives:
        near = max(d[n], CUTOFF)
        weights[n] = 1 / (near**2 * math.sqrt(1 - near**2 / 4))
    return {n: weight / sum(weights.values()) for n, weight in weights.items()}


CASES: dict[str, tuple[Callable[..., Chances], dict[str, object]]] = {
    "semihard": (semihard, {"margin": MARGIN, "fallback": True}),
    "softhard": (softhard, {"fallback": True}),
    # Its code leaves out the upper limit, so ours is set beyond all distances.
    "distance_weighted": (distance_weighted, {"cutoff": CUTOFF, "limit": 1.9999}),
}


def drawn(name: str, **options: object) -> Counter[tuple[int, int, int]]:
    points, labels = batch()
    miner = miners.create(name, **options)
    found: Counter[tuple[int, int, int]] = Counter()
    for _ in range(DRAWS):
        columns = miner(points, labels).indices
        found.update(zip(*(column.tolist() for column in columns), strict=True))
    return found


def expected(name: str) -> dict[tuple[int, int, int], float]:
    points, _ = batch()
    distances = torch.cdist(points, points).tolist()
    chances = {}
    for anchor in range(16):
        positive, negatives = anchor ^ 1, [n for n in range(16) if n // 2 != anchor // 2]
        for n, chance in CASES[name][0](distances[anchor], positive, negatives).items():
            chances[anchor, positive, n] = chance
    return chances


def check(found: Counter[tuple[int, int, int]], chances: dict[tuple[int, int, int], float]) -> None:
    assert found.keys() <= chances.keys()
    for triplet, chance in chances.items():
        slack = 5 * math.sqrt(chance * (1 - chance) / DRAWS) + 1 / DRAWS
        assert abs(found[triplet] / DRAWS - chance) <= slack, triplet


@pytest.mark.parametrize("name", CASES)
def test_triplets_are_drawn_as_often_as_there(name: str) -> None:
    check(drawn(name, **CASES[name][1]), expected(name))


def test_rho_switch_is_its_rho_distance_miner() -> None:
    chances = {triplet: (1 - SWITCH) * chance for triplet, chance in expected("distance_weighted").items()}
    chances |= {(anchor, anchor, anchor ^ 1): SWITCH for anchor in range(16)}
    options = {"miner": "distance_weighted", **CASES["distance_weighted"][1]}
    check(drawn("rho_switch", p_switch=SWITCH, **options), chances)
