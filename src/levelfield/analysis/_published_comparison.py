"""Comparison with published numbers, and differences between the protocols."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from levelfield.analysis._analyze import Analysis
from levelfield.analysis._results import MethodResult
from levelfield.analysis.published import PublishedCell, results
from levelfield.records import MetricInfo
from levelfield.stats import Interval

# Sources print the score of a single model under several names. Quoted claims are left out.
PUBLISHED_SETTINGS = {
    "concatenated": ("concatenated",),
    "separated": ("separated", "default", "cross_validation", "fixed_validation", ""),
}
# From the text of the sources. The thesis has 180, but 100 for ResNet50.
BATCH_SIZES = {"reality-check": 32, "reality-check-later": 32, "revisiting": 112, "deep-dive": 180}
RESNET_BATCH_SIZES = {"deep-dive": 100}
LEFT_OUT_VARIANTS = {"paper_year", "variant"}


@dataclass(frozen=True)
class PublishedComparison:
    """One result of the experiment with a matching published number.

    Attributes:
        method: Name of the method in levelfield.
        setting: Setting of the own result: "concatenated" or "separated".
        metric_info: Metric of both numbers.
        own: Own mean and interval, as fractions.
        cell: Published number, in percent.
        differs: Known differences of the published protocol; empty if there is none.
    """

    method: str
    setting: str
    metric_info: MetricInfo
    own: Interval
    cell: PublishedCell
    differs: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return both numbers for JSON: the own one as a fraction, the published one in percent."""
        return {
            "method": self.method,
            "setting": self.setting,
            "metric": self.metric_info.name,
            "own": self.own.mean,
            "published_percent": self.cell.value,
            "spread": self.cell.spread,
            "spread_kind": self.cell.spread_kind,
            "cite": self.cell.cite,
            "differs": list(self.differs),
        }


def compare_with_published(
    analysis: Analysis, *, metrics: Iterable[str] | None = None
) -> list[PublishedComparison]:
    """Find published numbers for the methods, dataset, settings and metrics of an experiment.

    If a source has several matches, the one whose protocol differs least is returned.

    Args:
        analysis: Analysis of the experiment.
        metrics: Names of metrics. Defaults to all metrics of the experiment.
    """
    dataset = analysis.comparison.experiment.dataset.name
    printed = [cell for cell in results() if cell.dataset == dataset and cell.unit == "%" and cell.value]
    rows = []
    for result in analysis.comparison.results:
        for setting, accepted in PUBLISHED_SETTINGS.items():
            for metric in metrics or analysis.comparison.metrics:
                if not result.scores[setting][metric]:
                    continue
                matches = [
                    PublishedComparison(
                        method=result.method,
                        setting=setting,
                        metric_info=analysis.comparison.metric_infos[metric],
                        own=analysis.interval(result.method, setting, metric),
                        cell=cell,
                        differs=tuple(list_differences(analysis, result, setting, cell)),
                    )
                    for cell in printed
                    if (cell.method, cell.metric) == (result.method, metric) and cell.setting in accepted
                ]
                rows += keep_closest(matches)
    return rows


def keep_closest(rows: list[PublishedComparison]) -> list[PublishedComparison]:
    """Return the row of each source whose protocol differs least; the first one if several are equal."""
    best: dict[str, PublishedComparison] = {}
    for row in rows:
        known = best.get(row.cell.source)
        if known is None or len(row.differs) < len(known.differs):
            best[row.cell.source] = row
    return list(best.values())


def list_differences(
    analysis: Analysis, result: MethodResult, setting: str, cell: PublishedCell
) -> list[str]:
    """List the differences between the protocol of a published number and that of the experiment."""
    experiment = analysis.comparison.experiment
    trained = result.method != analysis.comparison.baseline
    found = []
    if cell.trunk and cell.trunk != experiment.trunk.name:
        found.append(f"trunk {cell.trunk}, here {experiment.trunk.name}")
    elif experiment.trunk.weights == "none":
        found.append("pretrained trunk, here none")
    if trained and experiment.trunk.mode != "finetune":
        found.append(f"trunk fine-tuned, here {experiment.trunk.mode}")
    size = experiment.head.size * (count_folds(analysis) if setting == "concatenated" else 1)
    if cell.embedding_size is not None and cell.embedding_size != size:
        found.append(f"size {cell.embedding_size}, here {size}")
    batch = published_batch_size(cell)
    if trained and batch is not None and batch != experiment.batch.size:
        found.append(f"batch {batch}, here {experiment.batch.size}")
    if trained and cell.setting != setting:
        found.append(
            "one model, no folds" if cell.setting in ("", "default") else cell.setting.replace("_", " ")
        )
    found += [f"{key} {value}" for key, value in cell.variant.items() if key not in LEFT_OUT_VARIANTS]
    return found


def published_batch_size(cell: PublishedCell) -> int | None:
    """Return the batch size of a published number; None if the source does not print it."""
    if cell.trunk == "resnet50" and cell.source in RESNET_BATCH_SIZES:
        return RESNET_BATCH_SIZES[cell.source]
    return BATCH_SIZES.get(cell.source)


def count_folds(analysis: Analysis) -> int:
    """Return the number of models per rerun, which is also the number of concatenated embeddings."""
    return max(
        (len(rerun.folds) for c in analysis.confirmations.values() for rerun in c.reruns.values()),
        default=1,
    )
