"""Slow, obvious metrics of structure and clusters: loops over samples and pairs, in NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np


def unit(rows):
    rows = np.asarray(rows, dtype=np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def members(labels):
    return [np.flatnonzero(np.asarray(labels) == label) for label in np.unique(labels)]


def rho(rows):
    values = np.linalg.svd(rows, compute_uv=False)[1:]
    share = values / values.sum()
    uniform = 1 / len(share)
    return sum(uniform * math.log(uniform / each) for each in share)


def rho_class(rows, labels):
    return np.mean([rho(rows[own]) for own in members(labels) if len(own) > 2])


def pi_intra(rows, labels):
    means = []
    for own in members(labels):
        pairs = [np.linalg.norm(rows[i] - rows[j]) for i, j in itertools.combinations(own, 2)]
        if pairs:
            means.append(np.mean(pairs))
    return np.mean(means)


def pi_inter(rows, labels):
    means = [rows[own].mean(0) for own in members(labels)]
    return np.mean([np.linalg.norm(a - b) for a, b in itertools.combinations(means, 2)])


def alignment(rows, labels):
    return np.mean(
        [
            np.sum((rows[i] - rows[j]) ** 2)
            for own in members(labels)
            for i, j in itertools.combinations(own, 2)
        ]
    )


def uniformity(rows):
    pairs = itertools.combinations(range(len(rows)), 2)
    return math.log(np.mean([math.exp(-2 * np.sum((rows[i] - rows[j]) ** 2)) for i, j in pairs]))


def pair_f1(labels, clusters):
    right = said = true = 0
    for i, j in itertools.combinations(range(len(labels)), 2):
        said += clusters[i] == clusters[j]
        true += labels[i] == labels[j]
        right += clusters[i] == clusters[j] and labels[i] == labels[j]
    return 2 * right / (said + true) if said + true else 1.0


def entropy(labels):
    shares = [np.mean(np.asarray(labels) == label) for label in set(np.asarray(labels).tolist())]
    return -sum(share * math.log(share) for share in shares)


def mutual_information(labels, clusters):
    both = [f"{label} {cluster}" for label, cluster in zip(labels, clusters, strict=True)]
    return entropy(labels) + entropy(clusters) - entropy(both)


def nmi(labels, clusters):
    return 2 * mutual_information(labels, clusters) / (entropy(labels) + entropy(clusters))


def ami(labels, clusters):
    """NMI less chance, where chance is the mean over every way to deal the clusters out to the samples."""
    dealt = itertools.permutations(np.asarray(clusters).tolist())
    chance = np.mean([mutual_information(labels, each) for each in dealt])
    mean_entropy = (entropy(labels) + entropy(clusters)) / 2
    return (mutual_information(labels, clusters) - chance) / (mean_entropy - chance)
