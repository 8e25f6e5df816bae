"""Carrying out trials: one run per fold each, and the optional pruning of hopeless folds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from levelfield.methods import Method
from levelfield.protocol._flow import Flow, Job, Jobs
from levelfield.protocol._proposals import Point
from levelfield.protocol._resolved import Resolved
from levelfield.records import RunFolder, RunResult, Store, Trial
from levelfield.train import RunJob, checkpoint, run_job

PRUNE_FROM = 5  # complete trials; fewer say little of what a fold can reach


def trial_flow(
    resolved: Resolved,
    method: Method,
    store: Store,
    number: int,
    point: Point,
    *,
    earlier: Sequence[Trial],
    row: str,
    urgency: float,
) -> Flow[Trial]:
    """The record of trial ``number`` of a method, which tries ``point``.

    ``earlier`` are the trials of the rounds before, by which pruning judges; see
    :class:`levelfield.protocol._flow.Job` for the rest.
    """
    jobs = trial_jobs(resolved, method, store, number, point)
    wanted = [training_job(job, row=row, stage="search", urgency=urgency) for job in jobs]
    if not resolved.experiment.search.prune:
        results = yield Jobs(wanted)
        return _record(resolved, number, point, jobs, results, earlier=earlier)
    complete = [trial for trial in earlier if trial.score is not None]
    results = []
    for job in wanted:
        results += yield Jobs([job])
        if _is_lost(resolved, results, complete):
            break
    return _record(resolved, number, point, jobs, results, earlier=earlier)


def training_job(job: RunJob, *, row: str, stage: str, urgency: float) -> Job:
    """A run as the scheduler takes it: known if it is on record; lost, it is recorded as failed."""
    return Job(
        key=f"run {job.folder}",
        function=run_job,
        argument=job,
        row=row,
        stage=stage,
        urgency=urgency,
        known=RunFolder(job.folder).result,
        lost=partial(give_up, job),
        reads=(job.folder,),  # the state of a run that was interrupted
        writes=(job.folder,),
    )


def give_up(job: RunJob, reason: str) -> RunResult:
    """Record that a run failed for a reason that is not its own to find."""
    folder, result = RunFolder(job.folder), RunResult(status="failed", reason=reason)
    with folder.lock():
        folder.begin(job.spec)
        folder.give_up(result)
        checkpoint.drop_state(folder.path)
    return result


def trial_jobs(resolved: Resolved, method: Method, store: Store, number: int, point: Point) -> list[RunJob]:
    """The runs of one trial, fold by fold."""
    jobs = []
    for fold in range(resolved.num_folds):
        seed = resolved.seed("search", number, fold)
        spec = resolved.run_spec(method, point, fold=fold, seed=seed)
        jobs.append(RunJob(spec, resolved.resources, store.run(spec.run_id).path))
    return jobs


def _is_lost(resolved: Resolved, results: Sequence[RunResult], complete: Sequence[Trial]) -> bool:
    if any(result.status != "complete" for result in results):
        return True
    metric = resolved.experiment.training.metric
    scores = [result.validation[metric] for result in results]
    return is_hopeless(scores, [_fold_scores(trial) for trial in complete], sign=resolved.sign)


def is_hopeless(scores: Sequence[float], complete: Sequence[Sequence[float]], *, sign: int = 1) -> bool:
    """Whether a trial with these scores in its first folds can no longer win.

    It is, if it stays behind the best trial even with the best score in each remaining fold that any
    complete trial has had.

    Args:
        scores: Of the folds that are done.
        complete: The scores of all folds of each complete trial.
        sign: -1 if a smaller score is better.

    Example:
        >>> complete = [[0.5, 0.4]] * 4 + [[0.3, 0.5]]
        >>> is_hopeless([0.35], complete), is_hopeless([0.45], complete)
        (True, False)
        >>> is_hopeless([0.45], complete, sign=-1), is_hopeless([0.35], complete, sign=-1)
        (True, False)
    """
    if len(complete) < PRUNE_FROM:
        return False
    turned = [[sign * score for score in folds] for folds in complete]
    ceiling = [max(column) for column in list(zip(*turned, strict=True))[len(scores) :]]
    best = max(sum(row) for row in turned)
    return bool(sign * sum(scores) + sum(ceiling) < best)


def _fold_scores(trial: Trial) -> list[float]:
    return [score for score in trial.fold_scores if score is not None]


def _estimate(scores: Sequence[float], complete: Sequence[Trial]) -> float:
    """What a pruned trial's score would have been, were it as far from the mean in its other folds.

    The optimiser needs it, or it would go on trying the same; folds are not equally hard.
    """
    partial = [fmean(_fold_scores(trial)[: len(scores)]) for trial in complete]
    whole = [trial.score for trial in complete if trial.score is not None]
    return fmean(whole) + fmean(scores) - fmean(partial)


def _record(
    resolved: Resolved,
    number: int,
    point: Point,
    jobs: Sequence[RunJob],
    results: Sequence[RunResult],
    *,
    earlier: Sequence[Trial],
) -> Trial:
    """A trial is complete if every fold is; a fold that diverged or was lost makes it a failed one."""
    metric = resolved.experiment.training.metric
    reasons = [f"fold {fold}: {r.reason}" for fold, r in enumerate(results) if r.status != "complete"]
    scores = [result.validation.get(metric) for result in results]
    complete = [score for score in scores if score is not None]
    trial = Trial(
        number=number,
        hyperparameters=point,
        runs=tuple(job.spec.run_id for job in jobs[: len(results)]),
        fold_scores=tuple(scores),
        score=None if reasons else sum(complete) / len(complete),
        reason="; ".join(reasons),
        collapse=next((result.collapse for result in results if result.collapse), ""),
    )
    if len(results) == len(jobs) or reasons:
        return trial
    judges = [other for other in earlier if other.score is not None]
    return trial.model_copy(
        update={
            "score": None,
            "reason": f"pruned after fold {len(results)} of {len(jobs)}: it could no longer win",
            "estimate": _estimate(complete, judges),
        }
    )
