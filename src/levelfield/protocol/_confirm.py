"""The confirmation: train the selection anew with fresh seeds, then score the test set.

A method's reruns are trained as soon as its own selection is frozen. The test set is opened when all are:
then for one selection after the other, in a fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError, safe_open

from levelfield.methods import Method
from levelfield.protocol._flow import Flow, Job, Jobs, Until
from levelfield.protocol._neighbours import has_all
from levelfield.protocol._progress import Board
from levelfield.protocol._resolved import Resolved, metric_source
from levelfield.protocol._score import FeatureJob, ScoreJob, compute_features, score_rerun
from levelfield.protocol._trials import training_job
from levelfield.protocol.guard import TestPermit, open_test
from levelfield.records import Rerun, RunSpec, Store, read_selection
from levelfield.space import Value
from levelfield.train import RunJob, checkpoint, learns_from_features
from levelfield.train.checkpoint import has_weights

CONFIRM_URGENCY = 1.0  # as the last round of a search: nothing but scores comes after it


@dataclass
class Gate:
    """Lets selections through to the test set: when all are frozen, and in a fixed order.

    Attributes:
        rows: All that will be opened, in this order; those that have nothing to open pass as well.
        frozen: The files of frozen selections, by row.
        passed: How many rows have passed.
    """

    rows: tuple[str, ...]
    frozen: dict[str, Path] = field(default_factory=dict)
    passed: int = 0

    def is_open(self) -> bool:
        """Whether every selection is frozen."""
        return len(self.frozen) == len(self.rows)

    def is_turn_of(self, row: str) -> bool:
        """Whether every row before this one has passed."""
        return self.is_open() and self.rows[self.passed] == row


def train_flow(
    resolved: Resolved, method: Method, hyperparameters: Mapping[str, Value], store: Store, *, row: str
) -> Flow[list[tuple[RunSpec, ...]]]:
    """Train the reruns of a selection that are missing; the specs of all, rerun by rerun."""
    reruns = range(resolved.experiment.confirm.reruns)
    specs = [rerun_specs(resolved, method, hyperparameters, rerun) for rerun in reruns]
    jobs = [RunJob(s, resolved.resources, store.run(s.run_id).path) for group in specs for s in group]
    yield Jobs([training_job(job, row=row, stage="confirm", urgency=CONFIRM_URGENCY) for job in jobs])
    return specs


def baseline_specs(resolved: Resolved) -> list[tuple[RunSpec, ...]]:
    """What is scored of the network as it is before training: the row that every method must beat."""
    reruns = 1 if resolved.pretrained else resolved.experiment.confirm.reruns
    return [rerun_specs(resolved, resolved.methods[0], {}, rerun) for rerun in range(reruns)]


def rerun_specs(
    resolved: Resolved, method: Method, hyperparameters: Mapping[str, Value], rerun: int
) -> tuple[RunSpec, ...]:
    """The runs of one rerun, fold by fold."""
    return tuple(
        resolved.run_spec(method, hyperparameters, fold=fold, seed=resolved.seed("confirm", rerun, fold))
        for fold in range(resolved.num_folds)
    )


def score_flow(
    resolved: Resolved,
    store: Store,
    gate: Gate,
    board: Board,
    *,
    row: str,
    specs: list[tuple[RunSpec, ...]],
    runs: list[tuple[Path, ...]],
) -> Flow[None]:
    """Open the test set, once for all reruns of a row that have no score yet, and score them."""
    yield Until(lambda: gate.is_turn_of(row))
    selection_file = gate.frozen[row]
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
    look = resolved.repeat == 0 and resolved.experiment.confirm.gallery > 0  # at the first rerun
    unseen = look and 0 not in missing and _lacks_neighbours(known[0], outs[0], runs[0])
    todo = [0, *missing] if unseen else missing
    board.skip(row, len(specs) - len(todo))
    if not todo:
        gate.passed += 1
        return
    other_metrics = any(known[rerun].failed is None for rerun in missing if rerun in known)
    permit = open_test(
        store, selection_file, reruns=missing, other_metrics=other_metrics, only_pictures=not missing
    )
    board.opened(row)
    gate.passed += 1
    if features := feature_jobs(resolved, permit=permit):
        yield Jobs(features)

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
                look=look and rerun == 0,
                scored=scored,
                rerank=() if rerun else rerank,
            ),
            row=row,
            stage="score",
            reads=(*permit.files, *_trained(runs[rerun]), *((arrays,) if scored else ())),
            writes=(outs[rerun], arrays),
        )

    yield Jobs([job(rerun) for rerun in todo])


def _lacks_neighbours(rerun: Rerun, out: Path, runs: tuple[Path, ...]) -> bool:
    """Whether a scored rerun has nothing to look at, though its models are there to make it."""
    file = out.with_suffix(".safetensors")
    if rerun.failed is not None or not file.exists() or not all(has_weights(run) for run in runs):
        return False
    try:
        with safe_open(file, framework="pt") as tensors:
            return not has_all(tensors.keys())
    except SafetensorError:  # of a damaged file the report will speak
        return False


def feature_jobs(resolved: Resolved, *, permit: TestPermit | None = None) -> list[Job]:
    """The job that computes a frozen trunk's features, if there is one: of the test images with a permit.

    Every row that needs them asks for them; the scheduler sees that it is done once.
    """
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    if not learns_from_features(spec):
        return []
    part = "development" if permit is None else "test"
    job = FeatureJob(spec, resolved.resources, permit)
    row = f"features of the {part} images"
    reads = () if permit is None else permit.files
    return [Job(f"features {part}", compute_features, job, row, "features", urgency=math.inf, reads=reads)]


def _trained(runs: tuple[Path, ...]) -> Iterator[Path]:
    """The files of finished runs that scoring needs."""
    for run in runs:
        yield run / "result.json"
        if has_weights(run):  # not of a run that failed
            yield run / checkpoint.WEIGHTS


def is_scored(rerun: Rerun | None, wanted: tuple[str, ...], *, rerank: tuple[str, ...] = ()) -> bool:
    """Whether a rerun has every metric, by the code that the metric has now, or says why it failed.

    ``rerank`` names the ways of re-ranking that it must have been measured with.
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
