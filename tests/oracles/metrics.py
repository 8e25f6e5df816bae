"""Slow, obvious metrics: one query at a time, one item at a time, in NumPy."""

from __future__ import annotations

import math

import numpy as np

TIE = 1e-12


def distances(query, gallery, kind):
    if kind == "cosine":
        query = query / np.linalg.norm(query)
        gallery = gallery / np.linalg.norm(gallery, axis=1, keepdims=True)
        return np.linalg.norm(gallery - query, axis=1)
    radius = np.linalg.norm(gallery - gallery.mean(0), axis=1).max() or 1.0
    return np.linalg.norm(gallery - query, axis=1) / radius


def ranking(away, relevant):
    """True where the ranked list, nearest first, holds a relevant item; ties put irrelevant items first."""
    away = np.asarray(away) + TIE * np.asarray(relevant)
    return np.asarray(relevant)[np.lexsort((relevant, away))]


def precision_at(ranked, k):
    return sum(ranked[:k]) / k


def recall_at(ranked, k):
    return float(any(ranked[:k]))


def average_precision(ranked, depth, divisor):
    total = 0.0
    for place, hit in enumerate(ranked[:depth], start=1):
        if hit:
            total += precision_at(ranked, place)
    return total / divisor


def reciprocal_rank(ranked):
    return 1.0 / (1 + list(ranked).index(True))


def ndcg_at(ranked, k):
    def gain(hits):
        return sum(1.0 / math.log2(1 + place) for place, hit in enumerate(hits[:k], start=1) if hit)

    return gain(list(ranked)) / gain(sorted(ranked, reverse=True))


def compute_metric(name, ranked):
    relevant = int(sum(ranked))
    stem, _, k = name.partition("_at_")
    definitions = {
        "precision": lambda: precision_at(ranked, int(k)),
        "recall": lambda: recall_at(ranked, int(k)),
        "ndcg": lambda: ndcg_at(ranked, int(k)),
        "map_at_r": lambda: average_precision(ranked, relevant, relevant),
        "map": lambda: average_precision(ranked, len(ranked), relevant),
        "r_precision": lambda: precision_at(ranked, relevant),
        "map_c": lambda: average_precision(ranked, relevant + 1, relevant + 1),
        "mrr": lambda: reciprocal_rank(ranked),
    }
    if stem == "map" and k.isdigit():
        return average_precision(ranked, int(k), min(relevant, int(k)))
    return definitions[name if name in definitions else stem]()


def rankings(embeddings, labels, *, gallery=None, gallery_labels=None, distance="cosine"):
    """Ranked list of hits and misses of each query; a query is excluded from its own gallery."""
    exclude_self = gallery is None
    embeddings = np.asarray(embeddings, dtype=np.float64)
    labels = np.asarray(labels)
    gallery = embeddings if exclude_self else np.asarray(gallery, dtype=np.float64)
    gallery_labels = labels if exclude_self else np.asarray(gallery_labels)
    for row, (query, label) in enumerate(zip(embeddings, labels, strict=True)):
        others = np.arange(len(gallery)) != row if exclude_self else np.ones(len(gallery), dtype=bool)
        yield ranking(distances(query, gallery, distance)[others], (gallery_labels == label)[others]).tolist()


def per_query(names, embeddings, labels, **options):
    """One value per query for each metric; NaN for queries without relevant items."""
    ranked = list(rankings(embeddings, labels, **options))
    return {
        name: np.array([compute_metric(name, each) if any(each) else math.nan for each in ranked])
        for name in names
    }
