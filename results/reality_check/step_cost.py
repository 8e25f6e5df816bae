"""Time of a step of each method, from results/studies/step-cost.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from levelfield.stats import Agreement, rank_agreement


@dataclass(frozen=True)
class StepCost:
    """Measured times of a step on made-up features.

    Attributes:
        date: Date of the measurement.
        machine: Kind of the machine.
        ratio: Time of a step of each method, relative to ``reference``.
        reference: Method with a ratio of 1.
    """

    date: str
    machine: str
    ratio: dict[str, float]
    reference: str = "contrastive"

    def agreement(self, gains: Mapping[str, float]) -> Agreement:
        """Return the agreement of the order by cost with the order by gain."""
        return rank_agreement(self.ratio, gains)


def read_step_cost(file: Path) -> StepCost | None:
    """Return the measurement in a file that ``benchmarks.speed.step_cost`` wrote; None if there is none.

    The best round of a method counts, which other work on the machine affected least.
    """
    if not file.exists():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    seconds = {method: min(values) for method, values in found["seconds"].items()}
    reference = StepCost.reference
    ratio = {method: value / seconds[reference] for method, value in seconds.items()}
    return StepCost(found["date"], found["machine"], ratio)
