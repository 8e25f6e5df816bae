"""Luck in the search: what one search per method would have said."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median, stdev

from arenas import EVIDENT, Arena, directed
from levelfield.analysis import Confirmation, compare_methods
from levelfield.records import SearchLuck
from levelfield.stats import Judgment
from levelfield.studies.search_luck import compute_search_luck


@dataclass(frozen=True)
class LuckOfSearch:
    """Luck in the search of an arena.

    Attributes:
        between_methods: Standard deviation of the methods' means, in points.
        between_searches: Standard deviation of the searches of one method, pooled over methods.
        usual_between: The same for the median method; few methods cause most of the pooled value.
        within_searches: Standard deviation of the reruns of one search.
        false_alarms: Pairs of searches of one method that are judged different.
        pairs: Number of pairs of searches of one method.
        single: Per search, number of pairs of methods that differ by this search alone.
        unconfirmed: Per search, number of these pairs that do not differ by all searches together.
        opposite: Pairs that two searches call different in opposite directions.
    """

    between_methods: float
    between_searches: float
    usual_between: float
    within_searches: float
    false_alarms: int
    pairs: int
    single: tuple[int, ...]
    unconfirmed: tuple[int, ...]
    opposite: int


def luck_of_search(arena: Arena) -> LuckOfSearch | None:
    """Return the luck in the search; None for an arena with one search per method."""
    luck = _searches(arena)
    if not luck:
        return None
    confirmed = arena.told_apart
    called: list[set[tuple[str, str]]] = []
    for number in range(arena.analysis.comparison.experiment.search.repeats):
        judged = _one_search(arena, number)
        pairs = [] if judged is None else judged.pairs
        evident = [p for p in pairs if p.verdict in EVIDENT and arena.baseline not in (p.first, p.second)]
        called.append({directed(pair) for pair in evident})
    ever = set().union(*called)
    return LuckOfSearch(
        between_methods=100 * stdev(arena.analysis.means[method] for method in arena.methods),
        between_searches=100 * fmean(found.between**2 for found in luck) ** 0.5,
        usual_between=100 * median(found.between for found in luck),
        within_searches=100 * fmean(found.within**2 for found in luck) ** 0.5,
        false_alarms=sum(found.different for found in luck),
        pairs=sum(found.pairs for found in luck),
        single=tuple(len(found) for found in called),
        unconfirmed=tuple(len(found - confirmed) for found in called),
        opposite=sum(pair[::-1] in ever for pair in ever) // 2,
    )


def _searches(arena: Arena) -> list[SearchLuck]:
    """Compare the searches of each method with each other, as if they were methods."""
    comparison = arena.analysis.comparison
    return [
        compute_search_luck(arena.analysis.root, comparison, result)
        for result in comparison.trained
        if len(result.repeats) > 1
    ]


def _one_search(arena: Arena, number: int) -> Judgment | None:
    """Return the verdicts of a comparison that uses only this search of every method."""
    found = {}
    for method, confirmation in arena.analysis.confirmations.items():
        own = {key: rerun for key, rerun in confirmation.reruns.items() if key[0] == number}
        if confirmation.fixed:
            found[method] = confirmation
        elif own:
            found[method] = Confirmation(
                {(0, rerun): record for (_, rerun), record in own.items()},
                {(0, r): path for (s, r), path in confirmation.arrays.items() if s == number},
            )
    return compare_methods(found, arena.analysis.setting, arena.analysis.metric_info)
