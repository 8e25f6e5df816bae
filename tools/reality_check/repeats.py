"""Which findings repeat: in another arena, and in one that was measured before with other settings."""

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
        one: An arena.
        other: The other.
        both: Pairs that are different in both, the same way round.
        against: Pairs that are different in both, but the other way round.
        single: Pairs that are different in one of them only.
        neither: Pairs that are different in none.
        agreement: Of the two orders.
        worse: By method, those that were found better than it in both.
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
        """How many of the pairs that differ in both had been told apart before."""
        pairs = {(better, method) for method, others in self.worse.items() for better in others}
        return len(pairs & earlier.told_apart)


def repeated(one: Arena, other: Arena) -> Repeated:
    """Which findings of one arena repeat in the other, over the methods that both have."""
    shared = [method for method in one.methods if method in other.methods]
    worse: dict[str, list[str]] = {}
    for better, method in sorted(one.told_apart & other.told_apart):
        if {better, method} <= set(shared):
            worse.setdefault(method, []).append(better)
    return Repeated(
        one,
        other,
        agreement=rank_agreement(one.evidence.means, {m: other.evidence.means[m] for m in shared}),
        worse=dict(sorted(worse.items(), key=lambda item: -len(item[1]))),
        **_overlap(shared, one.told_apart, other.told_apart),
    )


def _overlap(methods: list[str], one: set[tuple[str, str]], other: set[tuple[str, str]]) -> dict[str, int]:
    """In which of two sets of (better, worse) the pairs of these methods are."""
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
    """An arena as it was measured before, with other settings; its records are in the project's history.

    Attributes:
        lr: The rate of all losses.
        steps: At most so many.
        means: The score of every method.
        told_apart: Pairs of methods that were, the better one first.
        unfinished: For every method, the share of its models that were best at the last measurement.
    """

    lr: float
    steps: int
    means: dict[str, float]
    told_apart: set[tuple[str, str]]
    unfinished: list[float]

    @classmethod
    def of(cls, arena: Arena) -> Earlier:
        """What is kept of an arena that is measured again."""
        experiment = arena.evidence.comparison.experiment
        means = {method: arena.evidence.means[method] for method in arena.methods}
        lr = experiment.optimizer.lr
        return cls(lr, arena.steps, means, arena.told_apart, arena.unfinished)

    @classmethod
    def read(cls, file: Path) -> Earlier:
        """What ``write`` wrote."""
        found = json.loads(file.read_text(encoding="utf-8"))
        return cls(**found | {"told_apart": {(better, worse) for better, worse in found["told_apart"]}})

    def write(self, file: Path) -> None:
        """Keep it."""
        write_text(file, json.dumps(asdict(self) | {"told_apart": sorted(self.told_apart)}, indent=1) + "\n")

    def against(self, arena: Arena) -> dict[str, int]:
        """How its verdicts compare with those of today."""
        return _overlap(arena.methods, self.told_apart, arena.told_apart)

    def agreement(self, arena: Arena) -> Agreement:
        """Of its order with that of today."""
        return rank_agreement(self.means, {method: arena.evidence.means[method] for method in arena.methods})
