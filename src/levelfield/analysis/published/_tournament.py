"""Tournament of losses of the thesis, recomputed from its tables and compared with the printed ranking."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from levelfield.analysis.published._cells import results
from levelfield.stats import Friedman, TournamentStanding, friedman, tournament

PRINTED = "Tournament of Loss Functions"
DIGITS = 2  # printed digits of means and standard deviations


@dataclass(frozen=True)
class Disagreement:
    """Cell of the printed tournament table that differs from the recomputed value."""

    row: str
    column: str
    printed: str
    recomputed: float
    note: str


@dataclass(frozen=True)
class ThesisTournament:
    """Recomputed tournament.

    Attributes:
        cases: R@1 by case (trunk and embedding size) and loss, under the printed names.
        standings: Ranks of the losses, best first.
        disagreements: Cells of the printed table that differ.
    """

    cases: dict[str, dict[str, float]]
    standings: list[TournamentStanding]
    disagreements: list[Disagreement]

    @cached_property
    def test(self) -> Friedman:
        """Friedman test with Nemenyi groups; not part of the thesis."""
        return friedman(self.cases)

    def rows(self) -> list[dict[str, str]]:
        """Return the recomputed and the printed ranking, as rows of text."""
        printed = {(c.row, c.metric): c.printed for c in results(source="deep-dive", table=PRINTED)}
        return [
            {
                "loss": standing.method,
                "total": f"{standing.total:g}",
                "printed total": printed[standing.method, "rank_sum"],
                "mean": f"{standing.mean:.{DIGITS}f}",
                "printed mean": printed[standing.method, "rank_mean"],
                "std": f"{standing.std:.{DIGITS}f}",
                "printed std": printed[standing.method, "rank_std"],
            }
            for standing in self.standings
        ]

    def rank_rows(self) -> list[dict[str, str]]:
        """Return the rank of each loss in each case, as rows of text."""
        return [
            {"loss": standing.method}
            | {case: f"{rank:g}" for case, rank in zip(self.cases, standing.ranks, strict=True)}
            for standing in self.standings
        ]

    def remarks(self) -> list[str]:
        """Return lines of text: how many cells agree, the cells that differ, and the Friedman test."""
        totals = [cell for cell in self.disagreements if cell.column == "Total Rankings"]
        lines = [
            f"{len(self.standings) - len(totals)} of {len(self.standings)} printed totals agree; "
            f"{len(self.disagreements)} printed cells differ:"
        ]
        lines += [
            f"  {cell.row}, {cell.column}: printed {cell.printed}, "
            f"recomputed {cell.recomputed:.4f} ({cell.note})"
            for cell in self.disagreements
        ]
        lines.append(
            f"Friedman: chi-squared {self.test.statistic:.1f}, p = {self.test.p_value:.1g}. Mean ranks that "
            f"differ by less than {self.test.critical_difference:.2f} are not distinguishable "
            f"(Nemenyi, {self.test.alpha:.0%}):"
        )
        return lines + [f"  {', '.join(group)}" for group in self.test.groups]


def thesis_tournament() -> ThesisTournament:
    """Rank ten losses by R@1 in the twelve CUB200-2011 tables of the thesis (3 trunks x 4 sizes).

    Example:
        >>> recomputed = thesis_tournament()
        >>> [(s.method, int(s.total)) for s in recomputed.standings[:3]]
        [('ProxyAnchor', 12), ('SoftTriple', 38), ('MultiSimilarity', 51)]
        >>> [(d.row, d.column, d.printed) for d in recomputed.disagreements]
        [('SoftTriple', 'Average Ranking', '3.16'), ('LiftedStructure', 'Standard Deviation', '1.89'),
         ('Triplet', 'Average Ranking', '8.85')]
    """
    cases: dict[str, dict[str, float]] = {}
    for cell in results(source="deep-dive", dataset="cub200", setting="default", metric="precision_at_1"):
        slide, _, panel = cell.table.rpartition(" (")  # slides have four panels, (a) to (d)
        if slide and panel.endswith(")") and cell.value is not None:
            cases.setdefault(f"{cell.trunk} {cell.embedding_size}", {})[cell.row] = cell.value
    standings = tournament(cases)
    return ThesisTournament(cases=cases, standings=standings, disagreements=find_disagreements(standings))


def find_disagreements(standings: list[TournamentStanding]) -> list[Disagreement]:
    """Return the cells of the printed tournament table that differ from ``standings``."""
    by_method = {standing.method: standing for standing in standings}
    fields = {"rank_sum": "total", "rank_mean": "mean", "rank_std": "std"}
    found = []
    for cell in results(source="deep-dive", table=PRINTED):
        recomputed: float = getattr(by_method[cell.row], fields[cell.metric])
        if cell.value != round(recomputed, DIGITS):
            found.append(Disagreement(cell.row, cell.column, cell.printed, recomputed, cell.note))
    return found
