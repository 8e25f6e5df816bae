"""Checks of the result of each run against its learning curve and its length."""

from __future__ import annotations

from collections.abc import Iterator

from levelfield.analysis._results import Comparison
from levelfield.records import EpochLine, RunDirectory, RunResult, Store


def check_curves(store: Store, comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each run whose result contradicts its learning curve; archives have no curves."""
    metric, longest = comparison.experiment.training.metric, comparison.experiment.training.max_epochs
    info = comparison.metric_infos.get(metric)
    for run in store.runs():
        result = run.result()
        if result is not None and result.status == "complete":
            known = longest if result.last_epoch <= longest else run.spec().training.max_epochs
            yield from _check_run(run, result, known, metric, 1 if info is None else info.sign)


def _check_run(run: RunDirectory, result: RunResult, longest: int, metric: str, sign: int) -> Iterator[str]:
    log = run.log()
    if not result.best_epoch <= result.last_epoch <= longest:
        yield (
            f"run {run.path.name} states {result.last_epoch} epochs, the best of them {result.best_epoch}, "
            f"of at most {longest}"
        )
    if log and not _fits(result, log, metric, sign):
        yield f"the learning curve of run {run.path.name} contradicts its result: one of them was edited"


def _fits(result: RunResult, log: list[EpochLine], metric: str, sign: int) -> bool:
    best = next((line for line in log if line.epoch == result.best_epoch), None)
    if best is None or best.scores != result.validation or log[-1].epoch > result.last_epoch:
        return False
    scores = [sign * line.scores[metric] for line in log if metric in line.scores]
    return metric not in best.scores or sign * best.scores[metric] >= max(scores)
