"""Findings that repeat: in another arena, or in an earlier measurement with other settings."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from arenas import Arena
from levelfield.records import write_text
from levelfield.stats import Agreement, rank_agreement


@dataclass(frozen=True)
class Repeated:
    """Pairs of methods in two arenas.

    Attributes:
        one: First arena.
        other: Second arena.
        both: Number of pairs that differ in both, in the same direction.
        against: Number of pairs that differ in both, in opposite directions.
        single: Number of pairs that differ in one of them only.
        neither: Number of pairs that differ in none.
        agreement: Agreement of the two orders.
        worse: Methods that were found better in both, by the worse method.
    """

    one: Arena
    other: Arena
    both: int
    against: int
    single: int
    neither: int
    agreement: Agreement
    worse: dict[str, list[str]]

    def also_in(self, earlier: Earlier) -> int:
        """Return the number of pairs that differ in both and differed in the earlier measurement."""
        pairs = {(better, method) for method, others in self.worse.items() for better in others}
        return len(pairs & earlier.told_apart)


def repeated(one: Arena, other: Arena) -> Repeated:
    """Compare the findings of two arenas, over the methods that both have."""
    shared = [method for method in one.methods if method in other.methods]
    worse: dict[str, list[str]] = {}
    for better, method in sorted(one.told_apart & other.told_apart):
        if {better, method} <= set(shared):
            worse.setdefault(method, []).append(better)
    return Repeated(
        one,
        other,
        agreement=rank_agreement(one.analysis.means, {m: other.analysis.means[m] for m in shared}),
        worse=dict(sorted(worse.items(), key=lambda item: -len(item[1]))),
        **_overlap(shared, one.told_apart, other.told_apart),
    )


def _overlap(methods: list[str], one: set[tuple[str, str]], other: set[tuple[str, str]]) -> dict[str, int]:
    """Count the pairs of these methods that are in both, one or none of two sets of (better, worse)."""
    counts = {"both": 0, "against": 0, "single": 0, "neither": 0}
    for pair in combinations(methods, 2):
        here, there = ({pair, pair[::-1]} & found for found in (one, other))
        if here and there:
            counts["both" if here == there else "against"] += 1
        else:
            counts["single" if here or there else "neither"] += 1
    return counts


@dataclass(frozen=True)
class Earlier:
    """Earlier measurement of an arena, with other settings; its records are in the history of the repository.

    Attributes:
        lr: Learning rate of all losses.
        steps: Largest number of steps of a run.
        means: Mean score of every method.
        told_apart: Pairs of methods that differ, the better one first.
        unfinished: Share of models that were best at the last measurement, per method.
    """

    lr: float
    steps: int
    means: dict[str, float]
    told_apart: set[tuple[str, str]]
    unfinished: list[float]

    @classmethod
    def from_arena(cls, arena: Arena) -> Earlier:
        """Return the results of an arena that are stored."""
        experiment = arena.analysis.comparison.experiment
        means = {method: arena.analysis.means[method] for method in arena.methods}
        lr = experiment.optimizer.lr
        return cls(lr, arena.steps, means, arena.told_apart, arena.unfinished)

    @classmethod
    def read(cls, file: Path) -> Earlier:
        """Read a file that :meth:`write` wrote."""
        found = json.loads(file.read_text(encoding="utf-8"))
        return cls(**found | {"told_apart": {(better, worse) for better, worse in found["told_apart"]}})

    def write(self, file: Path) -> None:
        """Write the results as JSON."""
        write_text(file, json.dumps(asdict(self) | {"told_apart": sorted(self.told_apart)}, indent=1) + "\n")

    def against(self, arena: Arena) -> dict[str, int]:
        """Count the pairs that differ in both, one or none of this measurement and the present one."""
        return _overlap(arena.methods, self.told_apart, arena.told_apart)

    def agreement(self, arena: Arena) -> Agreement:
        """Return the agreement of this order with the present one."""
        return rank_agreement(self.means, {method: arena.analysis.means[method] for method in arena.methods})
