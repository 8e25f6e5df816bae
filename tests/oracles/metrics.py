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


def trapezoid_precision(ranked):
    """Area under the curve of precision over recall, trapezoid by trapezoid."""
    area, found = 0.0, 0
    for place, hit in enumerate(ranked):  # `place` items come before this one
        if hit:
            before = found / place if place else 1.0
            found += 1
            area += (before + found / (place + 1)) / 2
    return area / found


def precision_to_the_last(ranked, k):
    """Precision of the nearest K, or of the ranking up to its last relevant item."""
    return precision_at(ranked, min(k, max(place for place, hit in enumerate(ranked, start=1) if hit)))


def global_average_precision(answers, truth):
    """Micro average precision of answers (query, class, confidence); ``truth`` has each query's classes."""
    total, right = 0.0, 0
    for place, (query, label, _) in enumerate(sorted(answers, key=lambda a: (-a[2], a[0], a[1])), start=1):
        if label in truth[query]:
            right += 1
            total += right / place
    return total / sum(1 for classes in truth.values() if classes)


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
        "map_trapezoid": lambda: trapezoid_precision(ranked),
        "mp": lambda: precision_to_the_last(ranked, int(k)),
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


def listed_rankings(embeddings, relevant, ignore, *, gallery=None, distance="cosine"):
    """Ranked list of hits and misses of each query, by lists of relevant and of ignored items."""
    exclude_self = gallery is None
    gallery = np.asarray(embeddings if exclude_self else gallery, dtype=np.float64)
    for row, query in enumerate(np.asarray(embeddings, dtype=np.float64)):
        away = distances(query, gallery, distance)
        ranked = [n for n in range(len(gallery)) if n not in ignore[row] and not (exclude_self and n == row)]
        hits = np.array([n in relevant[row] for n in ranked], dtype=bool)
        yield ranking(away[ranked], hits).tolist() if ranked else []


def per_query_by_lists(names, embeddings, relevant, ignore, **options):
    """One value per query for each metric; NaN for queries without relevant items."""
    ranked = list(listed_rankings(embeddings, relevant, ignore, **options))
    return {
        name: np.array([compute_metric(name, each) if any(each) else math.nan for each in ranked])
        for name in names
    }


def per_query(names, embeddings, labels, **options):
    """One value per query for each metric; NaN for queries without relevant items."""
    ranked = list(rankings(embeddings, labels, **options))
    return {
        name: np.array([compute_metric(name, each) if any(each) else math.nan for each in ranked])
        for name in names
    }
