"""Slow, obvious miners: loops over anchors, positives and negatives, straight from the definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

Triplet = tuple[int, int, int]
Pair = tuple[int, int]


def distance(points: np.ndarray, i: int, j: int) -> float:
    return float(np.sqrt(((points[i] - points[j]) ** 2).sum()))


def cosine(points: np.ndarray, i: int, j: int) -> float:
    return float(points[i] @ points[j] / (np.linalg.norm(points[i]) * np.linalg.norm(points[j])))


def positives_of(labels: np.ndarray, anchor: int) -> list[int]:
    return [j for j in range(len(labels)) if labels[j] == labels[anchor] and j != anchor]


def negatives_of(labels: np.ndarray, anchor: int) -> list[int]:
    return [j for j in range(len(labels)) if labels[j] != labels[anchor]]


def all_triplets(labels: np.ndarray) -> Iterator[Triplet]:
    for a in range(len(labels)):
        for p in positives_of(labels, a):
            for n in negatives_of(labels, a):
                yield a, p, n


def all_pairs(labels: np.ndarray) -> tuple[set[Pair], set[Pair]]:
    anchors = range(len(labels))
    return (
        {(a, p) for a in anchors for p in positives_of(labels, a)},
        {(a, n) for a in anchors for n in negatives_of(labels, a)},
    )


def hard(points: np.ndarray, labels: np.ndarray) -> set[Triplet]:
    found = set()
    for a in range(len(labels)):
        positives, negatives = positives_of(labels, a), negatives_of(labels, a)
        if positives and negatives:
            farthest = max(positives, key=lambda p: distance(points, a, p))
            nearest = min(negatives, key=lambda n: distance(points, a, n))
            found.add((a, farthest, nearest))
    return found


def easy_positive(points: np.ndarray, labels: np.ndarray, *, negatives: str) -> set[Triplet]:
    found = set()
    for a in range(len(labels)):
        if not positives_of(labels, a):
            continue
        p = min(positives_of(labels, a), key=lambda p: distance(points, a, p))
        allowed = negatives_of(labels, a)
        if negatives == "semihard":
            allowed = [n for n in allowed if distance(points, a, n) > distance(points, a, p)]
        if allowed:
            found.add((a, p, min(allowed, key=lambda n: distance(points, a, n))))
    return found


def semihard_strict(
    points: np.ndarray, labels: np.ndarray, *, margin: float, squared: bool = False
) -> set[Triplet]:
    """Every triplet that may be drawn."""
    power = 2 if squared else 1
    return {
        (a, p, n)
        for a, p, n in all_triplets(labels)
        if 0 < distance(points, a, n) ** power - distance(points, a, p) ** power < margin
    }


def semihard_relaxed(points: np.ndarray, labels: np.ndarray) -> set[Triplet]:
    """Every triplet that may be drawn."""
    return {(a, p, n) for a, p, n in all_triplets(labels) if distance(points, a, n) > distance(points, a, p)}


def softhard(points: np.ndarray, labels: np.ndarray) -> set[Triplet]:
    """Every triplet that may be drawn."""
    found = set()
    for a, p, n in all_triplets(labels):
        farthest = max(distance(points, a, q) for q in positives_of(labels, a))
        nearest = min(distance(points, a, m) for m in negatives_of(labels, a))
        if distance(points, a, n) < farthest and distance(points, a, p) > nearest:
            found.add((a, p, n))
    return found


def distance_weights(
    points: np.ndarray, labels: np.ndarray, *, cutoff: float, limit: float
) -> dict[int, dict[int, float]]:
    """Probabilities of the negatives of each anchor that has any."""
    points = points / np.linalg.norm(points, axis=1, keepdims=True)
    dimensions = points.shape[1]
    chances: dict[int, dict[int, float]] = {}
    for a in range(len(labels)):
        logs = {}
        for n in negatives_of(labels, a):
            d = distance(points, a, n)
            if d >= limit:
                continue
            d = max(d, cutoff)
            logs[n] = -((dimensions - 2) * math.log(d) + (dimensions - 3) / 2 * math.log(1 - d * d / 4))
        if logs:
            top = max(logs.values())
            total = sum(math.exp(value - top) for value in logs.values())
            chances[a] = {n: math.exp(value - top) / total for n, value in logs.items()}
    return chances


def multi_similarity(
    points: np.ndarray, labels: np.ndarray, *, epsilon: float
) -> tuple[set[Pair], set[Pair]]:
    positive, negative = set(), set()
    for a in range(len(labels)):
        positives, negatives = positives_of(labels, a), negatives_of(labels, a)
        if not positives or not negatives:
            continue
        lowest = min(cosine(points, a, p) for p in positives)
        highest = max(cosine(points, a, n) for n in negatives)
        positive |= {(a, p) for p in positives if cosine(points, a, p) - epsilon < highest}
        negative |= {(a, n) for n in negatives if cosine(points, a, n) + epsilon > lowest}
    return positive, negative


def pair_margin(
    points: np.ndarray, labels: np.ndarray, *, pos_margin: float, neg_margin: float
) -> tuple[set[Pair], set[Pair]]:
    positive, negative = all_pairs(labels)
    return (
        {(a, p) for a, p in positive if distance(points, a, p) > pos_margin},
        {(a, n) for a, n in negative if distance(points, a, n) < neg_margin},
    )


def triplet_margin(points: np.ndarray, labels: np.ndarray, *, margin: float, kind: str) -> set[Triplet]:
    fits: dict[str, Callable[[float], bool]] = {
        "all": lambda gap: gap <= margin,
        "hard": lambda gap: gap <= min(0, margin),
        "semihard": lambda gap: 0 < gap <= margin,
        "easy": lambda gap: gap > margin,
    }
    return {
        (a, p, n)
        for a, p, n in all_triplets(labels)
        if fits[kind](distance(points, a, n) - distance(points, a, p))
    }


def angular(points: np.ndarray, labels: np.ndarray, *, angle: float) -> set[Triplet]:
    found = set()
    for a, p, n in all_triplets(labels):
        center = (points[a] + points[p]) / 2
        across = distance(points, a, p)
        beside = 2 * float(np.sqrt(((points[n] - center) ** 2).sum()))
        if math.degrees(math.atan2(across, beside)) > angle:
            found.add((a, p, n))
    return found


def rho_switch(triplets: list[Triplet]) -> list[set[Triplet]]:
    """Possible results of each triplet: itself, or its anchor moved away from its positive."""
    return [{(a, p, n), (a, a, p)} for a, p, n in triplets]
