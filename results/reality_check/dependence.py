"""Causes of differences in the order of methods: dataset, trunk, schedule, mode, and chance."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from arenas import Arena
from levelfield.records import write_text
from levelfield.stats import Agreement, rank_agreement

FACTORS = ("search", "budget", "dataset", "trunk", "schedule", "mode")  # in the order of the page


@dataclass(frozen=True)
class Measured:
    """Means and verdicts of an arena, or of an earlier measurement of one.

    Attributes:
        title: Name for tables.
        means: Mean score of each method, best first.
        told_apart: Pairs that differ, the better method first; None if they were not judged.
    """

    title: str
    means: Mapping[str, float]
    told_apart: set[tuple[str, str]] | None

    @classmethod
    def of(cls, arena: Arena) -> Measured:
        """Return an arena's own measurement."""
        return cls(arena.title, {m: arena.means[m] for m in arena.methods}, arena.told_apart)


@dataclass(frozen=True)
class Repeated:
    """Two measurements of the same methods, of which one thing differs.

    Attributes:
        factor: What differs: one of ``FACTORS``.
        one: First measurement.
        other: Second measurement.
        agreement: Agreement of the two orders.
        same: Pairs that differ in both in the same direction, the better method first.
        opposite: Number of pairs that differ in both in opposite directions.
        single: Number of pairs that differ in one of them only.
        neither: Number of pairs that differ in none.
    """

    factor: str
    one: Measured
    other: Measured
    agreement: Agreement
    same: tuple[tuple[str, str], ...] = ()
    opposite: int = 0
    single: int = 0
    neither: int = 0

    @property
    def judged(self) -> bool:
        """Return True if both measurements have verdicts."""
        return self.one.told_apart is not None and self.other.told_apart is not None


def compare(factor: str, one: Measured, other: Measured) -> Repeated | None:
    """Compare two measurements over the methods that both have; None with fewer than three."""
    shared = [method for method in one.means if method in other.means]
    if len(shared) < 3:
        return None
    agreement = rank_agreement({m: one.means[m] for m in shared}, {m: other.means[m] for m in shared})
    if one.told_apart is None or other.told_apart is None:
        return Repeated(factor, one, other, agreement)
    same, opposite, single, neither = [], 0, 0, 0
    for pair in combinations(shared, 2):
        here, there = ({pair, pair[::-1]} & found for found in (one.told_apart, other.told_apart))
        if here and there:
            same += list(here & there)
            opposite += here != there
        else:
            single, neither = single + bool(here or there), neither + (not here and not there)
    return Repeated(factor, one, other, agreement, tuple(sorted(same)), opposite, single, neither)


def dependences(arenas: Iterable[Arena], earlier: Mapping[str, list[Earlier]]) -> list[Repeated]:
    """Return every pair of measurements that differ in one thing."""
    every = list(arenas)
    found = [*_by_search(every), *_by_arena(every)]
    for arena in every:
        for before in earlier.get(arena.name, []):
            found.append(compare(before.factor(arena), before.measured(arena), Measured.of(arena)))
    return sorted((f for f in found if f is not None), key=lambda each: FACTORS.index(each.factor))


def _by_search(arenas: list[Arena]) -> Iterator[Repeated | None]:
    """Compare every second search of an arena with the others: the same but for luck."""
    for arena in arenas:
        if arena.analysis.comparison.experiment.search.repeats > 1:
            halves = [
                Measured(f"{arena.title}: {word}", _means(arena, parity), None)
                for parity, word in enumerate(("every second search", "the other searches"))
            ]
            yield compare("search", *halves)


def _means(arena: Arena, parity: int) -> dict[str, float]:
    """Return the mean of each method over its searches with even or odd numbers."""
    analysis, found = arena.analysis, {}
    for method in arena.methods:
        scores = analysis.confirmations[method].scores(analysis.setting, analysis.metric)
        own = [score for (search, _), score in scores.items() if search % 2 == parity]
        if own:
            found[method] = fmean(own)
    return found


def _by_arena(arenas: list[Arena]) -> Iterator[Repeated | None]:
    for one, other in combinations(arenas, 2):
        if one.variant or other.variant:
            main, variant = (other, one) if one.variant else (one, other)
            if (main.dataset, main.mode, main.variant) != (variant.dataset, variant.mode, ""):
                continue
            trunks = [arena.analysis.comparison.experiment.trunk for arena in (main, variant)]
            factor = "schedule" if trunks[0] == trunks[1] else "trunk"
            yield compare(factor, Measured.of(main), Measured.of(variant))
        elif (one.mode == other.mode) != (one.dataset == other.dataset):
            factor = "dataset" if one.mode == other.mode else "mode"
            yield compare(factor, Measured.of(one), Measured.of(other))


@dataclass(frozen=True)
class Earlier:
    """Earlier measurement of an arena; its records are in the history of the repository.

    Attributes:
        lr: Learning rate of all losses, or of those that compare samples.
        steps: Largest number of steps of a run.
        means: Mean score of every method.
        told_apart: Pairs of methods that differ, the better one first.
        unfinished: Share of models that were best at the last measurement, per method.
        budget: Searches, trials and reruns.
        half_width: Median half-width of the intervals of all differences, in points.
        rates: Learning rates, as text.
        digest: Digest of the ledger's last line.
    """

    lr: float
    steps: int
    means: dict[str, float]
    told_apart: set[tuple[str, str]]
    unfinished: list[float]
    budget: str = "another budget"
    half_width: float | None = None
    rates: str = ""
    digest: str = ""

    @classmethod
    def from_arena(cls, arena: Arena) -> Earlier:
        """Return the results of an arena that are stored."""
        return cls(
            lr=arena.analysis.comparison.experiment.optimizer.lr,
            steps=arena.steps,
            means={method: arena.means[method] for method in arena.methods},
            told_apart=arena.told_apart,
            unfinished=arena.unfinished,
            budget=arena.budget,
            half_width=arena.half_width,
            rates=arena.rates,
            digest=arena.digest,
        )

    @classmethod
    def read(cls, file: Path) -> Earlier:
        """Read a file that :meth:`write` wrote."""
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return cls(**found | {"told_apart": {(better, worse) for better, worse in found["told_apart"]}})

    def write(self, file: Path) -> None:
        """Write the results as JSON."""
        write_text(file, json.dumps(asdict(self) | {"told_apart": sorted(self.told_apart)}, indent=1) + "\n")

    def factor(self, arena: Arena) -> str:
        """Return what differs from the present measurement: the schedule, the budget, or nothing but luck."""
        if (self.rates or f"{self.lr:g}", self.steps) != (arena.rates, arena.steps):
            return "schedule"
        return "search" if self.budget == arena.budget else "budget"

    def measured(self, arena: Arena) -> Measured:
        """Return the measurement for comparisons with the present one."""
        rates = self.rates or f"{self.lr:g}"
        what = f"{self.budget}; rate {rates}, {self.steps} steps"
        return Measured(f"{arena.title}, earlier ({what})", self.means, self.told_apart)


def read_earlier(studies: Path, arenas: Iterable[Arena]) -> dict[str, list[Earlier]]:
    """Return the earlier measurements of each arena; a copy of the present one does not count."""
    found = {}
    for arena in arenas:
        files = sorted(studies.glob(f"{arena.name}-earlier*.json"))
        own = [before for before in map(Earlier.read, files) if before.digest != arena.digest]
        if own:
            found[arena.name] = own
    return found
