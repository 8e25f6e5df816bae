"""Slow, obvious re-ranking: one query at a time, one neighbor at a time, in NumPy and sets."""

from __future__ import annotations

import numpy as np


def unit(vector):
    return vector / np.linalg.norm(vector)


def order(query, gallery, skip=None):
    """Rows of the gallery, most similar first, without ``skip``."""
    similarities = [float(query @ item) for item in gallery]
    rows = sorted(range(len(gallery)), key=lambda row: -similarities[row])
    return [row for row in rows if row != skip]


def expand(query, gallery, neighbors, alpha, skip=None):
    total = query.copy()
    for row in order(query, gallery, skip)[:neighbors]:
        similarity = float(query @ gallery[row])
        if similarity > 0:
            total = total + similarity**alpha * gallery[row]
    return unit(total)


def augment(gallery, neighbors, alpha):
    return np.stack([expand(item, gallery, neighbors, alpha, skip=row) for row, item in enumerate(gallery)])


def whiten(vectors, fitted_to, size, power):
    """Whitening by the singular values of the centered data instead of the eigenvalues of its covariance."""
    mean = fitted_to.mean(0)
    _, singular, directions = np.linalg.svd(fitted_to - mean, full_matrices=False)
    spread = singular / np.sqrt(len(fitted_to))
    out = []
    for vector in vectors:
        turned = [float((vector - mean) @ directions[d]) / spread[d] ** power for d in range(size)]
        out.append(unit(np.array(turned)))
    return np.stack(out)


def friends(orders, row, k):
    """The row, and those among its k nearest that have it among their own k nearest."""
    return {row} | {other for other in orders[row][:k] if row in orders[other][:k]}


def expanded_friends(orders, row, k1):
    half = max(1, round(k1 / 2))
    core = friends(orders, row, k1)
    found = set(core)
    for other in core:
        theirs = friends(orders, other, half)
        if 3 * len(core & theirs) >= 2 * len(theirs):
            found |= theirs
    return found


def encoding(everyone, orders, row, k1):
    weights = np.zeros(len(everyone))
    for other in expanded_friends(orders, row, k1):
        weights[other] = np.exp(-(1 - everyone[row] @ everyone[other]))
    return weights / weights.sum()


def k_reciprocal(everyone, query, candidates, *, k1, k2, weight):
    """New distances of the candidates."""
    encoded = {}
    orders = [order(vector, everyone, skip=row) for row, vector in enumerate(everyone)]

    def averaged(row):
        if row not in encoded:
            near = [row, *orders[row]][:k2]
            encoded[row] = np.mean([encoding(everyone, orders, other, k1) for other in near], axis=0)
        return encoded[row]

    def distance(row):
        mine, theirs = averaged(query), averaged(row)
        jaccard = 1 - np.minimum(mine, theirs).sum() / np.maximum(mine, theirs).sum()
        return weight * (1 - everyone[query] @ everyone[row]) + (1 - weight) * jaccard

    return {row: distance(row) for row in candidates}


def diffusion(query, gallery, *, neighbors, gamma, flow, skip=None):
    """Diffusion to every row: the full linear system, with dense matrices."""
    count = len(gallery)
    near = [order(gallery[row], gallery, skip=row)[:neighbors] for row in range(count)]
    edges = np.zeros((count, count))
    for a in range(count):
        for b in range(count):
            if b in near[a] and a in near[b]:
                edges[a, b] = max(0.0, float(gallery[a] @ gallery[b])) ** gamma
    degree = np.maximum(edges.sum(1), 1e-12)
    normalized = edges / np.sqrt(degree[:, None] * degree[None, :])
    start = np.zeros(count)
    for row in order(query, gallery, skip)[:neighbors]:
        start[row] = max(0.0, float(query @ gallery[row])) ** gamma
    return np.linalg.solve(np.eye(count) - flow * normalized, start)
