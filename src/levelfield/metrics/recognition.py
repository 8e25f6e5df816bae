"""Global average precision (GAP, micro average precision) of recognition, as in the landmark challenge."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from torch import Tensor
from torch.nn import functional as F

from levelfield.core.errors import UsageError


def global_average_precision(
    answers: Mapping[str, tuple[Hashable, float]], solution: Mapping[str, Collection[Hashable]]
) -> float:
    """Return the GAP of one answer per query: the average precision of all answers in one ranking.

    Answers are ranked by confidence, then by query. An answer to a query that shows no known class is wrong.
    The sum is divided by the number of queries that show one.

    Args:
        answers: For each answered query its class and the confidence; queries may be left out.
        solution: For each query the classes that it shows; empty if it shows none.

    Example:
        >>> answers = {"a": (7, 0.9), "b": (8, 0.8), "c": (9, 0.1)}
        >>> global_average_precision(answers, {"a": [7], "b": [], "c": [9, 3]})
        0.8333333333333333
    """
    known = sum(1 for classes in solution.values() if classes)
    if not known:
        raise UsageError("no query of the solution shows a class; give a solution with some")
    total, right = 0.0, 0
    ranked = sorted(answers.items(), key=lambda answer: (-answer[1][1], answer[0]))
    for rank, (query, (label, confidence)) in enumerate(ranked, start=1):
        if query not in solution:
            raise UsageError(f'query "{query}" is not in the solution; remove its answer')
        if confidence != confidence:  # noqa: PLR0124 - NaN has no rank
            raise UsageError(f'the confidence of query "{query}" is NaN; give a number')
        if label in solution[query]:
            right += 1
            total += right / rank
    return total / known


def answers_by_neighbors(
    queries: Tensor,
    images: Tensor,
    classes: Sequence[Hashable],
    ids: Sequence[str],
    *,
    neighbors: int = 1,
    block: int = 1 << 26,
) -> dict[str, tuple[Hashable, float]]:
    """Return for each query the class of its nearest images, and the sum of their similarities as confidence.

    Args:
        queries: Embeddings of the queries, Q x D.
        images: Embeddings of images with known classes, such as those of the training, N x D.
        classes: Class of each image (N).
        ids: Name of each query (Q).
        neighbors: Number of nearest images that vote, each with its cosine.
        block: Number of similarities that are computed at once.

    Example:
        >>> import torch
        >>> images = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> answers_by_neighbors(torch.tensor([[0.0, 2.0]]), images, [7, 8], ["a"])
        {'a': (8, 1.0)}
    """
    if len(classes) != len(images) or len(ids) != len(queries) or not len(images):
        raise UsageError("give one class per image and one name per query, and at least one image")
    if not 1 <= neighbors <= len(images):
        raise UsageError(f"neighbors is {neighbors}; give 1 to {len(images)}")
    unit = F.normalize(images.float())
    found: dict[str, tuple[Hashable, float]] = {}
    height = max(1, block // len(images))
    for start in range(0, len(queries), height):
        nearest = (F.normalize(queries[start : start + height].float()) @ unit.T).topk(neighbors, dim=1)
        for name, rows, cosines in zip(
            ids[start : start + height], nearest.indices.tolist(), nearest.values.tolist(), strict=True
        ):
            votes: dict[Hashable, float] = {}
            for row, cosine in zip(rows, cosines, strict=True):
                votes[classes[row]] = votes.get(classes[row], 0.0) + cosine
            best = max(votes, key=lambda each: votes[each])
            found[name] = (best, votes[best])
    return found
