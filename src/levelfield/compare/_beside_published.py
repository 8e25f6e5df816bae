"""Published numbers beside one's own, and in which respects the published protocol was another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from levelfield.compare._evidence import Evidence
from levelfield.compare._results import Result
from levelfield.published import Cell, results
from levelfield.records import Measure
from levelfield.stats import Interval

# What a single trained model scores is printed under several names; quoted claims are left out.
PUBLISHED_SETTINGS = {
    "concatenated": ("concatenated",),
    "separated": ("separated", "default", "cross_validation", "fixed_validation", ""),
}
# Printed in the sources' descriptions of their experiments; the thesis has 180, but 100 for ResNet50.
BATCH_SIZES = {"reality-check": 32, "reality-check-later": 32, "revisiting": 112, "deep-dive": 180}
RESNET_BATCH_SIZES = {"deep-dive": 100}
LEFT_OUT_VARIANTS = {"paper_year", "variant"}


@dataclass(frozen=True)
class Beside:
    """One published number beside one's own.

    Attributes:
        method: Which method, by our name.
        setting: Of one's own number.
        measure: Of both.
        own: One's own mean and interval, as fractions.
        cell: The published number, in percent.
        differs: What was different there; empty if nothing that is known.
    """

    method: str
    setting: str
    measure: Measure
    own: Interval
    cell: Cell
    differs: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The pair for machines; one's own as a fraction, the published number in percent."""
        return {
            "method": self.method,
            "setting": self.setting,
            "metric": self.measure.name,
            "own": self.own.mean,
            "published_percent": self.cell.value,
            "spread": self.cell.spread,
            "spread_kind": self.cell.spread_kind,
            "cite": self.cell.cite,
            "differs": list(self.differs),
        }


def beside_published(evidence: Evidence, *, metrics: Iterable[str] | None = None) -> list[Beside]:
    """Published numbers that match an experiment's methods, dataset, settings and metrics.

    Where a source has several, the one whose protocol differs least.

    Args:
        evidence: The experiment.
        metrics: Of which measures; all that it has by default.
    """
    dataset = evidence.comparison.experiment.dataset.name
    printed = [cell for cell in results() if cell.dataset == dataset and cell.unit == "%" and cell.value]
    rows = []
    for result in evidence.comparison.results:
        for setting, accepted in PUBLISHED_SETTINGS.items():
            for metric in metrics or evidence.comparison.metrics:
                if not result.scores[setting][metric]:
                    continue
                fitting = [
                    Beside(
                        method=result.method,
                        setting=setting,
                        measure=evidence.comparison.measures[metric],
                        own=result.interval(setting, metric),
                        cell=cell,
                        differs=tuple(differences(evidence, result, setting, cell)),
                    )
                    for cell in printed
                    if (cell.method, cell.metric) == (result.method, metric) and cell.setting in accepted
                ]
                rows += closest(fitting)
    return rows


def closest(rows: list[Beside]) -> list[Beside]:
    """Of each source the row whose protocol differs least; the first of equals."""
    best: dict[str, Beside] = {}
    for row in rows:
        known = best.get(row.cell.source)
        if known is None or len(row.differs) < len(known.differs):
            best[row.cell.source] = row
    return list(best.values())


def differences(evidence: Evidence, result: Result, setting: str, cell: Cell) -> list[str]:
    """In which respects a published number was measured under another protocol."""
    experiment = evidence.comparison.experiment
    trained = result.method != evidence.comparison.baseline
    found = []
    if cell.trunk and cell.trunk != experiment.trunk.name:
        found.append(f"trunk {cell.trunk}, here {experiment.trunk.name}")
    elif experiment.trunk.weights == "none":
        found.append("pretrained trunk, here none")
    if trained and experiment.trunk.mode != "finetune":
        found.append(f"trunk fine-tuned, here {experiment.trunk.mode}")
    size = experiment.head.size * (folds(evidence) if setting == "concatenated" else 1)
    if cell.embedding_size is not None and cell.embedding_size != size:
        found.append(f"size {cell.embedding_size}, here {size}")
    batch = batch_size(cell)
    if trained and batch is not None and batch != experiment.batch.size:
        found.append(f"batch {batch}, here {experiment.batch.size}")
    if trained and cell.setting != setting:
        found.append(
            "one model, no folds" if cell.setting in ("", "default") else cell.setting.replace("_", " ")
        )
    found += [f"{key} {value}" for key, value in cell.variant.items() if key not in LEFT_OUT_VARIANTS]
    return found


def batch_size(cell: Cell) -> int | None:
    """The batch size of a published number; None where the source does not say."""
    if cell.trunk == "resnet50" and cell.source in RESNET_BATCH_SIZES:
        return RESNET_BATCH_SIZES[cell.source]
    return BATCH_SIZES.get(cell.source)


def folds(evidence: Evidence) -> int:
    """How many models a rerun trained, and the concatenated embedding joins."""
    return max(
        (len(rerun.folds) for c in evidence.confirmations.values() for rerun in c.reruns.values()),
        default=1,
    )
