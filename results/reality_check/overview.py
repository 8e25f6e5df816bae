"""All methods over all datasets: gains, verdicts in general, and the table and sentences that show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median, stdev

from arenas import EVIDENT, Arena, directed
from beside_papers import years
from levelfield.analysis import compare_experiments
from levelfield.reports import Table
from levelfield.stats import JudgedPair, comparison_half_widths

NAMED = 3  # more methods than this are counted instead of named


@dataclass(frozen=True)
class Overview:
    """Main arenas of one mode together.

    Attributes:
        arenas: One arena per dataset.
        pairs: Verdicts on each pair of methods: in general with several datasets, else on the one dataset.
    """

    arenas: Sequence[Arena]
    pairs: tuple[JudgedPair, ...]

    @classmethod
    def of(cls, arenas: Sequence[Arena]) -> Overview:
        """Judge the methods that all arenas have."""
        together = compare_experiments([a.analysis for a in arenas]).together if len(arenas) > 1 else None
        return cls(arenas, tuple(arenas[0].pairs) if together is None else together.pairs)

    @cached_property
    def gains(self) -> dict[str, float]:
        """Mean gain over the pretrained features, in points, of each method of all arenas, best first."""
        common = [m for m in self.arenas[0].methods if all(m in arena.methods for arena in self.arenas)]
        means = {method: fmean(arena.gains[method] for arena in self.arenas) for method in common}
        return dict(sorted(means.items(), key=lambda item: -item[1]))

    @cached_property
    def above_average(self) -> dict[str, float]:
        """Mean distance of each method to the average method of a dataset, in points, best first."""
        average = fmean(self.gains.values())
        return {method: gain - average for method, gain in self.gains.items()}

    @property
    def average_gains(self) -> dict[str, float]:
        """Gain of the average method on each dataset, in points."""
        return {each.dataset: fmean(each.gains[m] for m in self.gains) for each in self.arenas}

    @property
    def partial(self) -> list[str]:
        """Methods that some arena does not have."""
        every = dict.fromkeys(method for arena in self.arenas for method in arena.methods)
        return [method for method in every if method not in self.gains]

    @property
    def pairs_of_methods(self) -> int:
        """Number of judged pairs."""
        return len(self.pairs)

    @property
    def median_half_width(self) -> float:
        """Median half-width of the intervals of all differences, in points."""
        return median(50 * (pair.high - pair.low) for pair in self.pairs)

    @property
    def half_widths(self) -> dict[str, float]:
        """Half width of each method in points; methods that differ have intervals that do not overlap."""
        return {method: 100 * half for method, half in comparison_half_widths(self.pairs).items()}

    @cached_property
    def told_apart(self) -> set[tuple[str, str]]:
        """Pairs that differ in general, the better method first."""
        return {directed(pair) for pair in self.pairs if pair.verdict in EVIDENT}

    @cached_property
    def worse(self) -> dict[str, list[str]]:
        """Methods that were found worse in general, most often first, with those that are better."""
        found: dict[str, list[str]] = {}
        for better, method in sorted(self.told_apart):
            found.setdefault(method, []).append(better)
        return dict(sorted(found.items(), key=lambda item: -len(item[1])))

    @property
    def unbeaten(self) -> list[str]:
        """Methods that were not found worse than any other in general, best mean first."""
        return [method for method in self.gains if method not in self.worse]

    @property
    def candidates(self) -> list[str]:
        """Methods that were not found worse in general, nor on any single dataset, best mean first."""
        return [m for m in self.unbeaten if all(m in arena.leaders for arena in self.arenas)]

    @property
    def improving(self) -> list[str]:
        """Methods that were found better than the pretrained features on every dataset."""
        above = [set(arena.above_baseline()) for arena in self.arenas]
        return [method for method in self.gains if all(method in found for found in above)]

    @property
    def widest_doubt(self) -> float:
        """Largest difference between two candidates that their intervals leave open, in points."""
        open_pairs = [p for p in self.pairs if {p.first, p.second} <= set(self.candidates)]
        return max((100 * max(p.high, -p.low) for p in open_pairs), default=0.0)

    def behind(self, method: str) -> tuple[float, float]:
        """Return the distance of a method to the best mean, and its upper bound, in points."""
        best = next(iter(self.gains))
        for pair in self.pairs:
            if {pair.first, pair.second} == {best, method}:
                found = pair if pair.first == best else pair.swapped()
                return 100 * found.difference, 100 * found.high
        return 0.0, 0.0

    @property
    def best_by_spread(self) -> list[str]:
        """The three methods with the best mean when each dataset is divided by its own spread of methods."""
        spread = {each.name: stdev(each.gains[m] for m in self.gains) for each in self.arenas}
        scaled = {m: fmean(each.gains[m] / spread[each.name] for each in self.arenas) for m in self.gains}
        return sorted(scaled, key=lambda method: -scaled[method])[:3]

    @property
    def widest(self) -> Arena:
        """Arena in which the methods differ most."""
        return max(self.arenas, key=lambda arena: stdev(arena.gains[m] for m in self.gains))

    def table(self, cost: Mapping[str, float]) -> str:
        """Return the table over all datasets, best mean first.

        Args:
            cost: Time of a step of each method, as a ratio; empty if it was not measured.
        """
        published_in = {method: year for arena in self.arenas for method, year in years(arena).items()}
        several = len(self.arenas) > 1
        heads = ["method", "year", *(["above average"] if several else [])]
        heads += [f"{arena.dataset} ({100 * arena.means[arena.baseline]:.1f})" for arena in self.arenas]
        heads += [*(["in general"] if several else []), *(["step time"] if cost else [])]
        rows = []
        for method in [*self.gains, *self.partial]:
            cells = [f"**{method}**" if method in self.candidates else method, str(published_in[method])]
            if several:
                cells.append(f"{self.above_average[method]:+.2f}" if method in self.gains else "-")
            cells += [
                f"{arena.gains[method]:+.2f}" if method in arena.gains else "-" for arena in self.arenas
            ]
            if several:
                cells.append(self._verdict(method))
            if cost:
                cells.append(f"{cost[method]:.1f}x" if method in cost else "-")
            rows.append(cells)
        return Table.from_rows(heads, rows).markdown()

    def _verdict(self, method: str) -> str:
        if method not in self.gains:
            return "not judged"
        others = self.worse.get(method, [])
        return f"worse than {listed(others, NAMED)}" if others else "not found worse"


def listed(names: Sequence[str], most: int = 10**6) -> str:
    """Return names as text, or their number if there are more than ``most``.

    Example:
        >>> listed(["a", "b", "c"]), listed(["a", "b"], 1), listed([])
        ('a, b and c', '2 others', 'none')
    """
    if len(names) > most:
        return f"{len(names)} others"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "none"
