"""Trials: one run per fold, with optional pruning of trials that can no longer win."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from statistics import fmean

from levelfield.methods import Method
from levelfield.protocol.schedule._flow import Flow, Job, WaitForJobs
from levelfield.protocol.search._proposals import SearchPoint
from levelfield.protocol.spec._resolved import ResolvedExperiment
from levelfield.records import RunDirectory, RunResult, Store, Trial
from levelfield.train import RunJob, checkpoint, run_job

MIN_TRIALS_TO_PRUNE = 5  # complete trials; with fewer, the best score of a fold is not known well enough


def trial_flow(
    resolved: ResolvedExperiment,
    method: Method,
    store: Store,
    number: int,
    point: SearchPoint,
    *,
    earlier: Sequence[Trial],
    row: str,
    priority: float,
) -> Flow[Trial]:
    """Run trial ``number`` of a method with the hyperparameters ``point``, and return its record.

    Args:
        resolved: The experiment.
        method: The method.
        store: Records of the experiment.
        number: Number of the trial.
        point: Hyperparameters of the trial.
        earlier: Trials of earlier rounds, used for pruning.
        row: Progress row.
        priority: Priority of the jobs; higher runs first.
    """
    jobs = trial_jobs(resolved, method, store, number, point)
    wanted = [training_job(job, row=row, stage="search", priority=priority) for job in jobs]
    if not resolved.experiment.search.prune:
        results = yield WaitForJobs(wanted)
        return _record(resolved, number, point, jobs, results, earlier=earlier)
    complete = [trial for trial in earlier if trial.score is not None]
    results = []
    for job in wanted:
        results += yield WaitForJobs([job])
        if _should_stop(resolved, results, complete):
            break
    return _record(resolved, number, point, jobs, results, earlier=earlier)


def training_job(job: RunJob, *, row: str, stage: str, priority: float) -> Job:
    """Return the scheduler job of a run; a run whose process keeps dying is recorded as failed."""
    return Job(
        key=f"run {job.directory}",
        function=run_job,
        argument=job,
        row=row,
        stage=stage,
        priority=priority,
        load_result=RunDirectory(job.directory).result,
        on_lost=partial(write_failure, job),
        reads=(job.directory,),  # the checkpoint of an interrupted run
        writes=(job.directory,),
    )


def write_failure(job: RunJob, reason: str) -> RunResult:
    """Record a run as failed, because its process died, and return the result."""
    directory, result = RunDirectory(job.directory), RunResult(status="failed", reason=reason)
    with directory.lock():
        directory.begin(job.spec)
        directory.write_failure(result)
        checkpoint.delete_state(directory.path)
    return result


def trial_jobs(
    resolved: ResolvedExperiment, method: Method, store: Store, number: int, point: SearchPoint
) -> list[RunJob]:
    """Return the runs of one trial, fold by fold."""
    jobs = []
    for fold in range(resolved.num_folds):
        seed = resolved.seed("search", number, fold)
        spec = resolved.run_spec(method, point, fold=fold, seed=seed, is_trial=True)
        jobs.append(RunJob(spec, resolved.resources, store.run(spec.run_id).path))
    return jobs


def drop_weights(resolved: ResolvedExperiment, store: Store, trials: Iterable[Trial]) -> None:
    """Delete the weights of recorded trials, unless ``search.keep_weights``.

    Nothing reads them: the selection is a function of the scores, and the reruns train anew.
    """
    if resolved.experiment.search.keep_weights:
        return
    for trial in trials:
        for run in trial.runs:
            checkpoint.delete_weights(store.run(run).path)


def _should_stop(
    resolved: ResolvedExperiment, results: Sequence[RunResult], complete: Sequence[Trial]
) -> bool:
    if any(result.status != "complete" for result in results):
        return True
    metric = resolved.experiment.training.metric
    scores = [result.validation[metric] for result in results]
    return cannot_win(scores, [_fold_scores(trial) for trial in complete], sign=resolved.sign)


def cannot_win(scores: Sequence[float], complete: Sequence[Sequence[float]], *, sign: int = 1) -> bool:
    """Return True if a trial with these scores in its first folds can no longer become the best.

    The bound assumes, in each remaining fold, the best score of any complete trial.

    Args:
        scores: Scores of the finished folds.
        complete: Scores of all folds of each complete trial.
        sign: -1 if a lower score is better.

    Example:
        >>> complete = [[0.5, 0.4]] * 4 + [[0.3, 0.5]]
        >>> cannot_win([0.35], complete), cannot_win([0.45], complete)
        (True, False)
        >>> cannot_win([0.45], complete, sign=-1), cannot_win([0.35], complete, sign=-1)
        (True, False)
    """
    if len(complete) < MIN_TRIALS_TO_PRUNE:
        return False
    signed = [[sign * score for score in folds] for folds in complete]
    ceiling = [max(column) for column in list(zip(*signed, strict=True))[len(scores) :]]
    best = max(sum(row) for row in signed)
    return bool(sign * sum(scores) + sum(ceiling) < best)


def _fold_scores(trial: Trial) -> list[float]:
    return [score for score in trial.fold_scores if score is not None]


def _estimate(scores: Sequence[float], complete: Sequence[Trial]) -> float:
    """Estimate the score of a pruned trial from its finished folds.

    The estimate is the mean score of complete trials plus the difference in the finished folds. Without it,
    the optimizer would propose the same hyperparameters again.
    """
    partial = [fmean(_fold_scores(trial)[: len(scores)]) for trial in complete]
    whole = [trial.score for trial in complete if trial.score is not None]
    return fmean(whole) + fmean(scores) - fmean(partial)


def _record(
    resolved: ResolvedExperiment,
    number: int,
    point: SearchPoint,
    jobs: Sequence[RunJob],
    results: Sequence[RunResult],
    *,
    earlier: Sequence[Trial],
) -> Trial:
    """Return the record of a trial; it is failed if any fold diverged or was lost."""
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
    completed = [other for other in earlier if other.score is not None]
    return trial.model_copy(
        update={
            "score": None,
            "reason": f"pruned after fold {len(results)} of {len(jobs)}: it could no longer win",
            "estimate": _estimate(complete, completed),
        }
    )
