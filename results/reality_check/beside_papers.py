"""Published scores and years of the methods of an arena."""

from __future__ import annotations

from dataclasses import dataclass

from arenas import Arena
from levelfield import losses, methods
from levelfield.analysis import published
from levelfield.reports import Table
from levelfield.stats import Agreement, rank_agreement


@dataclass(frozen=True)
class Papers:
    """Published scores of the methods of an arena, in percent.

    Attributes:
        claimed: Precision@1 that papers claim, each with its own network and protocol.
        checked: Precision@1 of one model in the reality check of 2020, BN-Inception fine-tuned.
        checked_map: MAP@R of the concatenated models in that check.
    """

    claimed: dict[str, float]
    checked: dict[str, float]
    checked_map: dict[str, float]

    def agreements(self, arena: Arena) -> dict[str, Agreement]:
        """Return the agreement of our order with each of theirs."""
        orders = {
            "the reality check (fine-tuned BN-Inception, concatenated MAP@R)": (
                self.checked_map,
                arena.scores("concatenated", "map_at_r"),
            ),
            "what papers claim (Precision@1)": (self.claimed, arena.scores("separated", "precision_at_1")),
        }
        return {
            name: rank_agreement(theirs, ours)
            for name, (theirs, ours) in orders.items()
            if len(theirs.keys() & ours.keys()) > 2
        }


def papers(arena: Arena) -> Papers:
    """Return the published scores on the arena's dataset; empty for an unknown dataset."""
    dataset = arena.analysis.comparison.experiment.dataset.name
    if dataset not in {cell.dataset for cell in published.results()}:
        return Papers({}, {}, {})

    def check(setting: str, metric: str) -> dict[str, float]:
        cells = published.results(
            source="reality-check-later", dataset=dataset, setting=setting, metric=metric
        )
        return {cell.method: cell.value for cell in cells if cell.value is not None}

    return Papers(
        claimed={point.method: point.value for point in published.claimed(dataset)},
        checked=check("separated", "precision_at_1"),
        checked_map=check("concatenated", "map_at_r"),
    )


def years(arena: Arena) -> dict[str, int]:
    """Return the year of each method: the latest of its loss and its regularizers."""
    found = {}
    for spec in arena.analysis.comparison.experiment.methods:
        method = methods.resolve_method(spec)
        added = [choice.name for choice in methods.selected_regularizers(dict(spec.set))]
        cards = [method.card, *(losses.regularizers.registry[name].card for name in added)]
        found[spec.name] = max(card.year or 0 for card in cards)
    return found


def beside_table(arena: Arena) -> str:
    """Return a table of Precision@1: papers' claims, check of 2020, ours; empty if none is known."""
    known, ours, published_in = papers(arena), arena.scores("separated", "precision_at_1"), years(arena)
    rows = [
        [method, str(published_in[method]), *(_percent(each) for each in found), f"{100 * ours[method]:.1f}"]
        for method in sorted(arena.methods, key=lambda name: published_in[name])
        if any(found := (known.claimed.get(method), known.checked.get(method)))
    ]
    heads = ["method", "year", "claimed in papers", "reality check of 2020", "here"]
    return Table.from_rows(heads, rows).markdown() if rows else ""


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
