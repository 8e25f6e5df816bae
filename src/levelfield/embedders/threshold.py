"""When to say "nothing like it here": a threshold with a promise about false accepts."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.embedders._card import Threshold
from levelfield.errors import UsageError

BLOCK_BYTES = 64 << 20


def calibrate(
    embeddings: Tensor, labels: Tensor, *, false_accept_rate: float = 0.01, data: str = "validation"
) -> Threshold:
    """The similarity that at most ``false_accept_rate`` of queries without a match reach.

    Every embedding in turn is the query. Its best similarity to *other* classes is what it would find if its
    own class were missing; the threshold is the quantile of these, rounded up as conformal prediction does.
    So a new query without a match, drawn like the calibration's, is accepted with a probability of at most
    ``false_accept_rate``. Pictures of one class are alike, which makes the promise looser than their number
    suggests; and a larger index offers more chances to err.

    Args:
        embeddings: Of validation data that neither training nor the test saw, N x D.
        labels: Their classes, int64 (N,).
        false_accept_rate: Above 0, below 1.
        data: What the data is called.

    Example:
        >>> angles = torch.tensor([0.0, 0.1, 1.5, 1.7, 3.0, 3.3])
        >>> vectors = torch.stack([angles.cos(), angles.sin()], 1)
        >>> found = calibrate(vectors, torch.tensor([0, 0, 1, 1, 2, 2]), false_accept_rate=0.2)
        >>> round(found.similarity, 2), found.true_accept_rate
        (0.27, 1.0)
    """
    if not 0 < false_accept_rate < 1:
        raise UsageError(f"the false-accept rate is {false_accept_rate}; it must lie between 0 and 1")
    if len(set(labels.tolist())) < 2:
        raise UsageError("a threshold needs pictures of at least two classes")
    impostor, match = _best(F.normalize(embeddings.float(), dim=1), labels)
    count = len(impostor)
    place = math.ceil((count + 1) * (1 - false_accept_rate))
    if place > count:
        raise UsageError(
            f"{count} queries cannot promise a false-accept rate of {false_accept_rate}; "
            f"give at least {math.ceil(1 / false_accept_rate) - 1}, or a higher rate"
        )
    # The next float: "at least the threshold" must leave out the impostor that the quantile stands on.
    edge = impostor.sort().values[place - 1]
    similarity = min(float(torch.nextafter(edge, torch.tensor(torch.inf))), 1.0)
    with_match = match[match > -torch.inf]
    return Threshold(
        similarity=similarity,
        false_accept_rate=false_accept_rate,
        true_accept_rate=float((with_match >= similarity).float().mean()) if len(with_match) else math.nan,
        queries=count,
        gallery=count,
        data=data,
    )


def _best(vectors: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """For each vector its best similarity to other classes, and to others of its own; -inf for none."""
    impostor, match = torch.empty(len(vectors)), torch.empty(len(vectors))
    height = max(1, BLOCK_BYTES // (8 * len(vectors)))
    for start in range(0, len(vectors), height):
        part = slice(start, start + height)
        similarities = vectors[part] @ vectors.T
        same = labels[part, None] == labels[None, :]
        impostor[part] = similarities.masked_fill(same, -torch.inf).amax(1)
        here = torch.arange(len(similarities))
        similarities[here, here + start] = -torch.inf
        match[part] = similarities.masked_fill(~same, -torch.inf).amax(1)
    return impostor, match
