"""Split plans, written with plain lists and loops."""

from __future__ import annotations


def k_fold(classes: list[int], folds: int) -> list[list[int]]:
    """Consecutive blocks; the first ``len(classes) % folds`` have one class more."""
    blocks = []
    start = 0
    for fold in range(folds):
        size = len(classes) // folds + (1 if fold < len(classes) % folds else 0)
        blocks.append(classes[start : start + size])
        start += size
    return blocks


def mlrc_ring(classes: list[int], folds: int) -> list[tuple[list[int], list[int]]]:
    """Train and validation classes per fold: a walk around the ring from class int(fold / folds * n)."""
    size = len(classes)
    held_out = int(size / folds)
    parts = []
    for fold in range(folds):
        start = int(fold / folds * size)
        walk = [classes[(start + step) % size] for step in range(size)]
        parts.append((walk[: size - held_out], walk[size - held_out :]))
    return parts
