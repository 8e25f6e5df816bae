"""Score against year of publication: is the newest method better?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

from arenas import Arena
from beside_papers import papers, years
from levelfield.stats import Agreement, rank_agreement
from overview import Overview

FEWEST = 5  # methods; fewer give no useful interval


@dataclass(frozen=True)
class Trend:
    """Least-squares line of scores over years; methods count as chance.

    Attributes:
        what: Scores.
        slope: Points in ten years.
        low: Lower end of the 95% interval of the slope.
        high: Upper end of the interval.
        methods: Number of methods.
        agreement: Agreement of the order by score with the order by year.
    """

    what: str
    slope: float
    low: float
    high: float
    methods: int
    agreement: Agreement

    @property
    def answer(self) -> str:
        """Direction of the trend in a word: "up", "down" or "none"."""
        return "up" if self.low > 0 else "down" if self.high < 0 else "none"

    @property
    def sentence(self) -> str:
        """The trend in a sentence; the order counts where the line leaves it open."""
        if self.answer != "none":
            higher = "higher" if self.slope > 0 else "lower"
            return f"Newer methods score {higher}, by {abs(self.slope):.1f} points in ten years."
        if self.agreement.low > 0 or self.agreement.high < 0:
            higher = "higher" if self.agreement.tau > 0 else "lower"
            return f"Newer methods tend to rank {higher}, but by little."
        return "We found no trend with the year of publication."

    def __str__(self) -> str:
        """Format for tables and sentences."""
        return f"{self.slope:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"


def trend(what: str, scores: Mapping[str, float], published_in: Mapping[str, int]) -> Trend | None:
    """Fit scores in points over years; None with too few methods or a single year."""
    shared = [method for method in scores if published_in.get(method)]
    when = [published_in[method] for method in shared]
    if len(shared) < FEWEST or len(set(when)) < 2:
        return None
    line = stats.linregress(when, [scores[method] for method in shared])
    half = stats.t.ppf(0.975, len(shared) - 2) * line.stderr
    return Trend(
        what,
        *(10 * float(value) for value in (line.slope, line.slope - half, line.slope + half)),
        len(shared),
        rank_agreement({m: float(published_in[m]) for m in shared}, {m: scores[m] for m in shared}),
    )


def trends(overview: Overview, others: Sequence[Arena]) -> list[Trend]:
    """Return the trend over all datasets first, then of each arena, then of the papers' own numbers."""
    arenas = overview.arenas
    known = years(arenas[0])
    found = [trend("mean over the datasets, MAP@R", overview.gains, known)] if len(arenas) > 1 else []
    found += [trend(f"{arena.title}, MAP@R", arena.gains, years(arena)) for arena in (*arenas, *others)]
    for arena in arenas:
        beside = papers(arena)
        scores = {m: value for m, value in beside.claimed.items() if m in arena.methods}
        found.append(trend(f"{arena.dataset}, P@1 claimed in papers", scores, years(arena)))
        checked = {m: value for m, value in beside.checked.items() if m in arena.methods}
        found.append(trend(f"{arena.dataset}, P@1 in the check of 2020", checked, years(arena)))
    return [each for each in found if each is not None]
