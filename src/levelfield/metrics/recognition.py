"""Global average precision (GAP, micro average precision) of recognition, as in the landmark challenge."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from levelfield.core.errors import UsageError


def global_average_precision(
    answers: Mapping[str, tuple[int, float]], solution: Mapping[str, Collection[Hashable]]
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
