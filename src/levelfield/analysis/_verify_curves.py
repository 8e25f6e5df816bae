"""Checks of the result of each run against its learning curve and its length."""

from __future__ import annotations

from collections.abc import Iterator

from levelfield.analysis._results import Comparison
from levelfield.records import EpochLine, RunResult, Store


def check_curves(store: Store, comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each run whose result contradicts its learning curve or its length.

    Archives have no curves. The direction of a metric that only an earlier revision used is unknown (0).
    """
    longest = comparison.experiment.training.max_epochs
    for run in store.runs():
        result = run.result()
        if result is None or result.status != "complete":
            continue
        # a run of an earlier revision may be longer
        known = longest if result.last_epoch <= longest else run.spec().training.max_epochs
        if not result.best_epoch <= result.last_epoch <= known:
            yield (
                f"run {run.path.name} states {result.last_epoch} epochs, the best of them "
                f"{result.best_epoch}, of at most {known}"
            )
        log = run.log()
        if not log:
            continue
        metric = run.spec().metric.name
        info = comparison.metric_infos.get(metric)
        if not _fits(result, log, metric, 0 if info is None else info.sign):
            yield f"the learning curve of run {run.path.name} contradicts its result: one of them was edited"


def _fits(result: RunResult, log: list[EpochLine], metric: str, sign: int) -> bool:
    best = next((line for line in log if line.epoch == result.best_epoch), None)
    if best is None or best.scores != result.validation or log[-1].epoch > result.last_epoch:
        return False
    scores = [sign * line.scores[metric] for line in log if metric in line.scores]
    return metric not in best.scores or sign * best.scores[metric] >= max(scores)
