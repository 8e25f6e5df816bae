"""Calibration of the match threshold for a given false-accept rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.errors import UsageError
from levelfield.retrieval.embedders._card import MatchThreshold

BLOCK_BYTES = 64 << 20
# Calibration needs at least CLASSES_TIMES_RATE / rate classes. With fewer, new classes are accepted two to
# three times as often as promised; with as many, 0.9 to 1.25 times. Simulated in
# tests/retrieval/embedders/test_threshold.py.
CLASSES_TIMES_RATE = 0.25


def calibrate_threshold(
    embeddings: Tensor,
    labels: Tensor,
    *,
    groups: Tensor | None = None,
    false_accept_rate: float = 0.01,
    data: str = "validation",
) -> MatchThreshold:
    """Return the similarity that at most ``false_accept_rate`` of images of new classes reach.

    Each embedding is a query. Its best similarity to *other* classes is what it would find if its own class
    were missing; the threshold is a high quantile of these similarities. Images of one class are alike, so a
    quantile over all of them would be too low for an unseen class. Therefore each class is left out in turn,
    as query and from the gallery, and tested with the threshold of the others. The result is the lowest
    quantile that accepts at most ``false_accept_rate`` of the left-out images. False accepts are more
    frequent in a larger index.

    Args:
        embeddings: Embeddings of validation data used neither in training nor in the test, N x D.
        labels: Classes, int64 (N,).
        groups: Group of each embedding, int64 (N,). Each searches in its own group only, such as the
            validation classes of one fold, which other networks embed than those of the next fold. None: all
            are one group.
        false_accept_rate: Above 0, below 1.
        data: Name of the data.

    Example:
        >>> labels = torch.arange(40).repeat_interleave(3)
        >>> classes = torch.randn(40, 16, generator=torch.Generator().manual_seed(0))
        >>> found = calibrate_threshold(classes[labels] + 0.01, labels, false_accept_rate=0.1)
        >>> 0.5 < found.similarity < 1, found.true_accept_rate
        (True, 1.0)
    """
    if not 0 < false_accept_rate < 1:
        raise UsageError(f"the false-accept rate is {false_accept_rate}; it must lie between 0 and 1")
    count, classes = len(labels), len(set(labels.tolist()))
    most = math.floor((count + 1) * false_accept_rate)  # images that may lie above the quantile
    fewest = max(3, math.ceil(CLASSES_TIMES_RATE / false_accept_rate))
    if most < 1 or classes < fewest:
        raise UsageError(
            f"{count} images of {classes} classes cannot guarantee a false-accept rate of "
            f"{false_accept_rate}; give at least {math.ceil(1 / false_accept_rate) - 1} of {fewest} classes, "
            "or a higher rate"
        )
    groups = torch.zeros_like(labels) if groups is None else groups
    found = best_similarities(F.normalize(embeddings.float(), dim=1), labels, groups)
    accepted = _accepted_when_left_out(found, labels, most)
    kept = [place for place, share in enumerate(accepted) if share <= false_accept_rate]
    if not kept:
        raise UsageError(
            f"{classes} classes cannot guarantee a false-accept rate of {false_accept_rate}: "
            f"the strictest threshold of all others accepts {accepted[0]:.1%} of a class on average; give "
            "more classes, or a higher rate"
        )
    # The next float: the impostor at the quantile itself must stay below the threshold.
    edge = found.impostor.topk(kept[-1] + 1).values[-1]
    similarity = min(float(torch.nextafter(edge, torch.tensor(torch.inf))), 1.0)
    with_match = found.match[found.match > -torch.inf]
    return MatchThreshold(
        similarity=similarity,
        false_accept_rate=false_accept_rate,
        true_accept_rate=float((with_match >= similarity).float().mean()) if len(with_match) else math.nan,
        queries=count,
        gallery=int(torch.unique(groups, return_counts=True)[1].min()),
        data=data,
    )


def calibrate_concatenation(
    parts: Sequence[Tensor], labels: Tensor, *, networks: int, **options: Any
) -> MatchThreshold:
    """Return the threshold of a concatenation of ``networks`` networks, of which fewer may be given.

    The more networks are concatenated, the less chance is in a similarity, and the lower is the threshold.
    Its distance to that of very many networks is about proportional to 1 / networks. So if fewer are given,
    but at least two, the threshold follows from those of all and of all but one; the share of matches too.

    Args:
        parts: Unit vectors of the same images by each network, N x D each.
        labels: Classes, int64 (N,).
        networks: Number of networks that are exported.
        options: Arguments of :func:`calibrate_threshold`.
    """
    found = calibrate_threshold(torch.cat([*parts], 1), labels, **options)
    count = len(parts)
    if not 1 < count < networks:
        return found
    fewer = [
        calibrate_threshold(torch.cat([*parts[:out], *parts[out + 1 :]], 1), labels, **options)
        for out in range(count)
    ]
    step = (1 / count - 1 / networks) / (1 / (count - 1) - 1 / count)

    def extrapolate(value: float, others: Sequence[float], lowest: float) -> float:
        return min(max(value + step * (value - sum(others) / count), lowest), 1.0)

    similarity = extrapolate(found.similarity, [each.similarity for each in fewer], -1.0)
    matches = found.true_accept_rate
    if not math.isnan(matches):
        matches = extrapolate(matches, [each.true_accept_rate for each in fewer], 0.0)
    return found.model_copy(update={"similarity": similarity, "true_accept_rate": matches})


@dataclass(frozen=True)
class BestSimilarities:
    """Best similarities of every query, each (N,).

    ``match``: to images of the same class, -inf without one. ``impostor``: to other classes;
    ``impostor_class`` is the class that it belongs to. ``second``: to the best class other than these two.
    """

    match: Tensor
    impostor: Tensor
    impostor_class: Tensor
    second: Tensor


def _accepted_when_left_out(best: BestSimilarities, labels: Tensor, most: int) -> list[float]:
    """Return the share of queries accepted by the threshold of all other classes.

    One value for each threshold: 0 ... ``most`` - 1 impostors of the other classes lie above it.
    """
    accepted = torch.zeros(most, dtype=torch.int64)
    for left_out in sorted(set(labels.tolist())):
        own = labels == left_out
        others = torch.where(best.impostor_class == left_out, best.second, best.impostor)[~own]
        edges = others.topk(min(most, len(others))).values
        reached = (best.impostor[own][:, None] > edges[None]).sum(0)
        accepted += F.pad(reached, (0, most - len(edges)), value=int(own.sum()))
    return [count / len(labels) for count in accepted.tolist()]


def best_similarities(vectors: Tensor, labels: Tensor, groups: Tensor) -> BestSimilarities:
    """Return the best similarities of unit vectors (N x D), each within its group."""
    match, impostor, second = (torch.full((len(vectors),), -torch.inf) for _ in range(3))
    found = BestSimilarities(match, impostor, torch.full_like(labels, -1), second)
    for group in torch.unique(groups):
        rows = (groups == group).nonzero()[:, 0]
        _search_group(vectors[rows], labels[rows], rows, found)
    return found


def _search_group(vectors: Tensor, labels: Tensor, rows: Tensor, found: BestSimilarities) -> None:
    """Fill in the best similarities of ``rows``, whose vectors and labels are given."""
    height = max(1, BLOCK_BYTES // (8 * len(vectors)))
    for start in range(0, len(vectors), height):
        part = slice(start, start + height)
        here = rows[part]
        similarities = vectors[part] @ vectors.T
        same = labels[part, None] == labels[None, :]
        strangers = similarities.masked_fill(same, -torch.inf)
        found.impostor[here], where = strangers.max(1)
        found.impostor_class[here] = labels[where]
        nearest = labels[where][:, None] == labels[None, :]
        found.second[here] = strangers.masked_fill(nearest, -torch.inf).amax(1)
        itself = torch.arange(len(similarities))
        similarities[itself, itself + start] = -torch.inf
        found.match[here] = similarities.masked_fill(~same, -torch.inf).amax(1)
