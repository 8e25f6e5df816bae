"""The confirmation: train the selection anew with fresh seeds, then score the test set.

Two scores per rerun, as in "A Metric Learning Reality Check". *Separated*: the mean over the folds' models.
*Concatenated*: the folds' embeddings of an image side by side, normalised again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional as F

from levelfield import metrics
from levelfield.data import Dataset, transforms
from levelfield.engine import Engine
from levelfield.methods import Method
from levelfield.protocol._resolve import Resolved
from levelfield.protocol.guard import TestPermit, open_test, test_view
from levelfield.records import RunFolder, RunSpec, Store, digest, read_json, write_bytes, write_json
from levelfield.train import (
    ImageInputs,
    Resources,
    RunJob,
    build_embedder,
    embed,
    prepare_process,
    run_job,
)

QUERY, GALLERY = 1, 2


@dataclass(frozen=True)
class ScoreJob:
    """Score one rerun's models on the test set. Without ``runs`` the models are left untrained."""

    specs: tuple[RunSpec, ...]
    runs: tuple[Path, ...]
    permit: TestPermit
    resources: Resources
    metrics: tuple[str, ...]
    out: Path


def confirm(
    resolved: Resolved,
    method: Method,
    selection_file: Path,
    store: Store,
    engine: Engine,
    *,
    on_run: Callable[[], None],
) -> None:
    """Train the reruns that are missing, then score those that are not scored yet."""
    selection = read_json(selection_file)
    reruns = range(resolved.experiment.confirm.reruns)
    specs = [_specs(resolved, method, selection["hyperparameters"], rerun) for rerun in reruns]
    jobs = [RunJob(s, resolved.resources, store.run(s.run_id).path) for group in specs for s in group]
    engine.map(run_job, jobs, on_done=on_run)
    runs = [tuple(store.run(spec.run_id).path for spec in group) for group in specs]
    _score(resolved, selection_file, store, engine, specs=specs, runs=runs)


def confirm_baseline(resolved: Resolved, selection_file: Path, store: Store, engine: Engine) -> None:
    """Score the network as it is before training: the row that every method must beat."""
    method = resolved.methods[0]
    specs = [
        tuple(
            spec.model_copy(update={"head": spec.head.model_copy(update={"kind": "none"})})
            for spec in _specs(resolved, method, {}, rerun)
        )
        for rerun in range(resolved.experiment.confirm.reruns)
    ]
    _score(resolved, selection_file, store, engine, specs=specs, runs=[() for _ in specs])


def _specs(
    resolved: Resolved, method: Method, hyperparameters: dict[str, Any], rerun: int
) -> tuple[RunSpec, ...]:
    return tuple(
        resolved.run_spec(method, hyperparameters, fold=fold, seed=resolved.seed("confirm", rerun, fold))
        for fold in range(resolved.num_folds)
    )


def _score(
    resolved: Resolved,
    selection_file: Path,
    store: Store,
    engine: Engine,
    *,
    specs: list[tuple[RunSpec, ...]],
    runs: list[tuple[Path, ...]],
) -> None:
    """Open the test set once for all reruns that have no score yet."""
    folder = store.confirmation(digest(read_json(selection_file)))
    outs = [rerun_file(folder, rerun) for rerun in range(len(specs))]
    wanted = resolved.experiment.metrics
    missing = [rerun for rerun, out in enumerate(outs) if not _is_scored(out, wanted)]
    if not missing:
        return
    permit = open_test(store, selection_file)
    engine.map(
        score_rerun,
        [
            ScoreJob(specs[rerun], runs[rerun], permit, resolved.resources, wanted, outs[rerun])
            for rerun in missing
        ],
    )


def _is_scored(out: Path, wanted: tuple[str, ...]) -> bool:
    if not out.exists():
        return False
    found = read_json(out)
    return "failed" in found or set(wanted) <= set(found["concatenated"])


def rerun_file(folder: Path, rerun: int) -> Path:
    """Where the scores of one rerun lie."""
    return folder / f"rerun-{rerun:02d}.json"


def score_rerun(job: ScoreJob) -> None:
    """Embed the test set with each fold's model; write the scores, and each query's own values."""
    prepare_process(job.resources)
    folders = [RunFolder(path) for path in job.runs]
    results = [folder.result() for folder in folders]
    reasons = [r.reason for r in results if r is not None and r.status != "complete"]
    if reasons:
        write_json(job.out, {"failed": reasons[0]})
        return
    test = test_view(job.permit, job.specs[0].data, job.resources)
    per_fold: list[Tensor] = []
    for index, spec in enumerate(job.specs):
        embedder = build_embedder(spec, job.resources)
        if folders:
            embedder.load_state_dict(folders[index].weights(), strict=spec.trunk.mode == "finetune")
        per_fold.append(_embed_test(embedder, spec, test, device=job.resources.device))
    scores = [_evaluate(embeddings, test, job.metrics) for embeddings in per_fold]
    together = _evaluate(F.normalize(torch.cat(per_fold, dim=1)), test, job.metrics)
    _save_per_query(job, scores, together)
    write_json(
        job.out,
        {
            "separated": {m: float(np.mean([score[m] for score in scores])) for m in job.metrics},
            "concatenated": {m: float(together[m]) for m in job.metrics},
            "folds": [{m: float(score[m]) for m in job.metrics} for score in scores],
            "best_epochs": [result.best_epoch for result in results if result is not None],
        },
    )


def _embed_test(embedder: Any, spec: RunSpec, test: Dataset, *, device: str) -> Tensor:
    embedder.to(device).eval()
    evaluate = transforms.create(spec.transform.name, train=False, **spec.transform.options)
    inputs = ImageInputs(test.images, train=evaluate, evaluate=evaluate)
    rows = np.arange(len(test), dtype=np.int64)
    return embed(embedder, inputs, rows, batch_size=spec.training.eval_batch_size, device=device)


def _evaluate(embeddings: Tensor, test: Dataset, wanted: tuple[str, ...]) -> metrics.Scores:
    labels = torch.from_numpy(test.labels)
    if test.roles is None:
        return metrics.evaluate(embeddings, labels, metrics=wanted, per_query=True)
    query = torch.from_numpy((test.roles & QUERY) > 0)
    gallery = torch.from_numpy((test.roles & GALLERY) > 0)
    return metrics.evaluate(
        embeddings[query],
        labels[query],
        gallery=embeddings[gallery],
        gallery_labels=labels[gallery],
        metrics=wanted,
        per_query=True,
    )


def _save_per_query(job: ScoreJob, folds: list[metrics.Scores], together: metrics.Scores) -> None:
    """Keep what each query scored: significance tests pair methods query by query."""
    tensors: dict[str, Tensor] = {}
    for name in job.metrics:
        if together.per_query is None or name not in together.per_query:
            continue  # a measure of the whole space, such as NMI, has no value per query
        tensors[f"concatenated.{name}"] = torch.as_tensor(together.per_query[name], dtype=torch.float32)
        values = [torch.as_tensor(fold.per_query[name]) for fold in folds if fold.per_query is not None]
        tensors[f"separated.{name}"] = torch.stack(values).double().mean(dim=0).float()
    write_bytes(job.out.with_suffix(".safetensors"), save(tensors))
