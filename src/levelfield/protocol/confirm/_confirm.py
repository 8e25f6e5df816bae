"""The confirmation: train the selection again with fresh seeds, then score the test set.

A method's reruns are trained as soon as its own selection is frozen. The test set is opened when all
selections are frozen, for one selection after the other in a fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError, safe_open

from levelfield.core.space import Value
from levelfield.methods import Method
from levelfield.protocol.confirm._neighbors import has_gallery_arrays
from levelfield.protocol.confirm._score import FeatureJob, ScoreJob, compute_features, score_rerun
from levelfield.protocol.guard import TestPermit, open_test
from levelfield.protocol.schedule._flow import Flow, Job, WaitForJobs, WaitUntil
from levelfield.protocol.schedule._progress import ProgressState
from levelfield.protocol.search._trials import training_job
from levelfield.protocol.spec._resolved import ResolvedExperiment, metric_source
from levelfield.records import Rerun, RunSpec, Store, read_selection
from levelfield.train import RunJob, checkpoint, uses_cached_features
from levelfield.train.checkpoint import has_weights

CONFIRM_PRIORITY = 1.0  # as the last round of a search: only scoring follows


@dataclass
class TestSetBarrier:
    """Barrier before the test set: opens when all selections are frozen, for one row at a time.

    Attributes:
        rows: All rows in the order of opening, including rows that have nothing to score.
        frozen: Files of frozen selections, by row.
        passed: Number of rows that have passed.
    """

    rows: tuple[str, ...]
    frozen: dict[str, Path] = field(default_factory=dict)
    passed: int = 0

    def is_open(self) -> bool:
        """Return True if every selection is frozen."""
        return len(self.frozen) == len(self.rows)

    def is_turn_of(self, row: str) -> bool:
        """Return True if every row before this one has passed."""
        return self.is_open() and self.rows[self.passed] == row


def train_flow(
    resolved: ResolvedExperiment,
    method: Method,
    hyperparameters: Mapping[str, Value],
    store: Store,
    *,
    row: str,
) -> Flow[list[tuple[RunSpec, ...]]]:
    """Train missing reruns of a selection, and return the specs of all reruns."""
    reruns = range(resolved.experiment.confirm.reruns)
    specs = [rerun_specs(resolved, method, hyperparameters, rerun) for rerun in reruns]
    jobs = [RunJob(s, resolved.resources, store.run(s.run_id).path) for group in specs for s in group]
    yield WaitForJobs(
        [training_job(job, row=row, stage="confirm", priority=CONFIRM_PRIORITY) for job in jobs]
    )
    return specs


def baseline_specs(resolved: ResolvedExperiment) -> list[tuple[RunSpec, ...]]:
    """Return the specs of the baseline, rerun by rerun."""
    reruns = range(resolved.baseline_reruns)
    return [rerun_specs(resolved, resolved.methods[0], {}, rerun) for rerun in reruns]


def rerun_specs(
    resolved: ResolvedExperiment, method: Method, hyperparameters: Mapping[str, Value], rerun: int
) -> tuple[RunSpec, ...]:
    """Return the specs of one rerun, fold by fold."""
    return tuple(
        resolved.run_spec(method, hyperparameters, fold=fold, seed=resolved.seed("confirm", rerun, fold))
        for fold in range(resolved.num_folds)
    )


def score_flow(
    resolved: ResolvedExperiment,
    store: Store,
    barrier: TestSetBarrier,
    progress_state: ProgressState,
    *,
    row: str,
    specs: list[tuple[RunSpec, ...]],
    runs: list[tuple[Path, ...]],
) -> Flow[None]:
    """Open the test set once for all unscored reruns of a row, and score them."""
    yield WaitUntil(lambda: barrier.is_turn_of(row))
    selection_file = barrier.frozen[row]
    selection = read_selection(selection_file).selection_id
    wanted = resolved.experiment.metrics
    known = store.reruns(selection, len(specs))
    outs = [store.rerun_file(selection, rerun) for rerun in range(len(specs))]
    rerank = resolved.experiment.confirm.rerank if resolved.repeat == 0 and any(runs) else ()
    missing = [
        rerun
        for rerun in range(len(specs))
        if not is_scored(known.get(rerun), wanted, rerank=() if rerun else rerank)
    ]
    gallery = resolved.repeat == 0 and resolved.experiment.confirm.gallery > 0  # of the first rerun
    only_arrays = gallery and 0 not in missing and _lacks_neighbors(known[0], outs[0], runs[0])
    todo = [0, *missing] if only_arrays else missing
    progress_state.add_done(row, len(specs) - len(todo))
    if not todo:
        barrier.passed += 1
        return
    other_metrics = any(known[rerun].failed is None for rerun in missing if rerun in known)
    permit = open_test(
        store, selection_file, reruns=missing, other_metrics=other_metrics, only_gallery=not missing
    )
    progress_state.test_set_opened(row)
    barrier.passed += 1
    if features := feature_jobs(resolved, permit=permit):
        yield WaitForJobs(features)

    def job(rerun: int) -> Job:
        arrays = outs[rerun].with_suffix(".safetensors")
        scored = rerun not in missing
        return Job(
            key=f"score {outs[rerun]}",
            function=score_rerun,
            argument=ScoreJob(
                specs[rerun],
                runs[rerun],
                permit,
                resolved.resources,
                wanted,
                outs[rerun],
                gallery=gallery and rerun == 0,
                scored=scored,
                rerank=() if rerun else rerank,
            ),
            row=row,
            stage="score",
            reads=(*permit.files, *_trained_files(runs[rerun]), *((arrays,) if scored else ())),
            writes=(outs[rerun], arrays),
        )

    yield WaitForJobs([job(rerun) for rerun in todo])


def _lacks_neighbors(rerun: Rerun, out: Path, runs: tuple[Path, ...]) -> bool:
    """Return True if a scored rerun lacks the arrays of the gallery and its models exist to compute them."""
    file = out.with_suffix(".safetensors")
    if rerun.failed is not None or not file.exists() or not all(has_weights(run) for run in runs):
        return False
    try:
        with safe_open(file, framework="pt") as tensors:
            return not has_gallery_arrays(tensors.keys())
    except SafetensorError:  # the report flags damaged files
        return False


def feature_jobs(resolved: ResolvedExperiment, *, permit: TestPermit | None = None) -> list[Job]:
    """Return the job that computes a frozen trunk's features; none for other trunks.

    With a permit the features are those of the test images. Several rows request the job; it runs once.
    """
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    if not uses_cached_features(spec):
        return []
    part = "development" if permit is None else "test"
    job = FeatureJob(spec, resolved.resources, permit)
    row = f"features of the {part} images"
    reads = () if permit is None else permit.files
    return [Job(f"features {part}", compute_features, job, row, "features", priority=math.inf, reads=reads)]


def _trained_files(runs: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the files of finished runs that scoring reads."""
    for run in runs:
        yield run / "result.json"
        if has_weights(run):  # a failed run has none
            yield run / checkpoint.WEIGHTS_FILE


def is_scored(rerun: Rerun | None, wanted: tuple[str, ...], *, rerank: tuple[str, ...] = ()) -> bool:
    """Return True if a rerun failed, or has every wanted metric, computed by the metric's present source.

    ``rerank`` names the re-rankings that it must have scores of.
    """
    if rerun is None:
        return False
    if rerun.failed is not None:
        return True
    if not {*rerank} <= {found.name for found in rerun.reranked}:
        return False
    return all(
        metric in rerun.concatenated and rerun.metric_sources.get(metric) == metric_source(metric)
        for metric in wanted
    )
