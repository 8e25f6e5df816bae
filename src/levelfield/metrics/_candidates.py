"""The few items left of a gallery after the sieve: put in order, exactly, and turned into ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.metrics._hits import Hits
from levelfield.metrics._select import by_row_then_value
from levelfield.metrics._sorting import TIE, measured
from levelfield.metrics._vectors import Vectors


@dataclass(frozen=True)
class Candidates:
    """P pairs of a query and a gallery item that may matter to a measure.

    Attributes:
        row: int64 (P,), which query of the block.
        query: int64 (P,), the row of that query among all queries.
        item: int64 (P,), the row of the item in the gallery.
        is_hit: bool (P,), whether the item is relevant to the query.
        value: float32 (P,), their approximate similarity.
    """

    row: Tensor
    query: Tensor
    item: Tensor
    is_hit: Tensor
    value: Tensor

    def select(self, at: Tensor) -> Candidates:
        """The candidates at these places, in this order."""
        return Candidates(self.row[at], self.query[at], self.item[at], self.is_hit[at], self.value[at])


def in_order(found: Candidates, queries: Vectors, gallery: Vectors, *, slack: float) -> Candidates:
    """The candidates by query, then nearest first, ties with irrelevant items first.

    Approximate similarities that are at most ``slack`` apart may be in the wrong order; what stands in a run
    of such neighbours is measured anew in float64. A run of only relevant or only irrelevant items needs no
    order: no rank depends on it.
    """
    found = found.select(by_row_then_value(found.row, found.value))
    fresh = torch.ones_like(found.is_hit)
    fresh[1:] = (found.row[1:] != found.row[:-1]) | (found.value[:-1] - found.value[1:] > slack)
    run = torch.cumsum(fresh, 0) - 1
    size = torch.bincount(run)
    hits = torch.bincount(run[found.is_hit], minlength=len(size))
    unsure = ((hits > 0) & (hits < size))[run].nonzero()[:, 0]
    some = found.select(unsure)
    again = exact_order(some, run[unsure], measured(queries, gallery, some.query, some.item))
    order = torch.arange(len(run), device=run.device)
    order[unsure] = unsure[again]
    return found.select(order)


def exact_order(found: Candidates, group: Tensor, away: Tensor) -> Tensor:
    """The order (P,) by group (P,), then distance ``away`` (P,), then irrelevant before relevant."""
    order = torch.argsort(found.is_hit.int(), stable=True)
    order = order[torch.argsort((away + TIE * found.is_hit)[order], stable=True)]
    return order[torch.argsort(group[order], stable=True)]


def ranked(found: Candidates, relevant: Tensor, *, gallery: int) -> Hits:
    """Candidates in order, as the hits of a block of queries with ``relevant`` (B,) items to find."""
    count = torch.bincount(found.row, minlength=len(relevant))
    before = torch.cumsum(count, 0) - count
    place = torch.arange(1, len(found.row) + 1, device=found.row.device) - before[found.row]
    seen = torch.cumsum(found.is_hit, 0)
    seen_before = torch.cat([seen.new_zeros(1), seen])[before]
    nth = seen - seen_before[found.row]
    hit = found.is_hit
    return Hits(row=found.row[hit], rank=place[hit], nth=nth[hit], relevant=relevant, gallery=gallery)
