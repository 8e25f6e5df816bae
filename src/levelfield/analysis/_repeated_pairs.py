"""Pairs of methods that several experiments tell apart: in all of them, in some, or in none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from levelfield.analysis._analyze import Analysis

Pair = tuple[str, str]  # the better method first


@dataclass(frozen=True)
class RepeatedPairs:
    """Pairs of the methods that all experiments have, by how often they were told apart.

    Attributes:
        experiments: Number of experiments.
        same: Told apart in all experiments, in the same direction; the better method first.
        opposite: Told apart in two experiments in opposite directions.
        some: Told apart in some experiments only; the better method first.
        never: Number of pairs that no experiment told apart.
    """

    experiments: int
    same: tuple[Pair, ...]
    opposite: tuple[Pair, ...]
    some: tuple[Pair, ...]
    never: int

    @property
    def sentences(self) -> list[str]:
        """Counts of pairs, one or two sentences."""
        total = len(self.same) + len(self.opposite) + len(self.some) + self.never
        if not total:
            return ["The experiments have fewer than two methods in common."]
        where = "both" if self.experiments == 2 else f"all {self.experiments}"
        found = [
            f"Of {total} pairs of methods, {len(self.same)} were told apart in {where} experiments in the "
            f"same direction, {len(self.some)} in some only, {self.never} in none."
        ]
        if self.opposite:
            found.append(f"Told apart in opposite directions: {len(self.opposite)}.")
        return found


def find_repeated_pairs(experiments: Sequence[Analysis]) -> RepeatedPairs:
    """Sort the pairs of the methods that all experiments have; baselines are left out.

    Args:
        experiments: Analysis of each experiment, for the same setting and metric.
    """
    decided = [_decided(analysis) for analysis in experiments]
    common = set.intersection(
        *(
            {name for name in analysis.means if name != analysis.comparison.baseline}
            for analysis in experiments
        )
    )
    order = [name for name in experiments[0].means if name in common]
    same, opposite, some, never = [], [], [], 0
    for one, other in combinations(order, 2):
        for_one = sum((one, other) in found for found in decided)
        for_other = sum((other, one) in found for found in decided)
        if for_one and for_other:
            opposite.append((one, other))
        elif max(for_one, for_other) == len(experiments):
            same.append((one, other) if for_one else (other, one))
        elif for_one or for_other:
            some.append((one, other) if for_one else (other, one))
        else:
            never += 1
    return RepeatedPairs(len(experiments), tuple(same), tuple(opposite), tuple(some), never)


def _decided(analysis: Analysis) -> set[Pair]:
    """Return the pairs that were told apart, the better method first."""
    better = {(pair.first, pair.second) for pair in analysis.pairs if pair.verdict == "better"}
    return better | {(pair.second, pair.first) for pair in analysis.pairs if pair.verdict == "worse"}
