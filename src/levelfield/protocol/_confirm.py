"""The confirmation: train the selection anew with fresh seeds, then score the test set.

Two scores per rerun, as in "A Metric Learning Reality Check". *Separated*: the mean over the folds' models.
*Concatenated*: the folds' embeddings of an image side by side, normalised again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load, save
from torch import Tensor
from torch.nn import functional as F

from levelfield import metrics, models
from levelfield.data import GALLERY, QUERY, Dataset
from levelfield.engine import Runner
from levelfield.errors import RunError
from levelfield.files import write_bytes
from levelfield.methods import Method
from levelfield.models.pca import pca_head
from levelfield.protocol._neighbours import has_all, to_look_at
from levelfield.protocol._resolve import Resolved, metric_source
from levelfield.protocol.guard import TestPermit, open_test, test_view
from levelfield.records import Rerun, RunFolder, RunSpec, Store, read_selection, write_rerun
from levelfield.space import Value
from levelfield.train import (
    Resources,
    RunJob,
    build_embedder,
    development,
    embed,
    inputs_of,
    load_trained_part,
    prepare_process,
    run_job,
)
from levelfield.train.checkpoint import has_weights, load_best_weights

SPECTRUM = "spectrum"
CLASSES = "classes"


@dataclass(frozen=True)
class ScoreJob:
    """Score one rerun's models on the test set. Without ``runs`` the models are left untrained.

    With ``look`` the nearest neighbours of queries are kept too, for the gallery; where the scores are there
    already (``scored``), nothing else is written.
    """

    specs: tuple[RunSpec, ...]
    runs: tuple[Path, ...]
    permit: TestPermit
    resources: Resources
    metrics: tuple[str, ...]
    out: Path
    look: bool = False
    scored: bool = False


def confirm(
    resolved: Resolved,
    method: Method,
    selection_file: Path,
    store: Store,
    engine: Runner,
    *,
    on_run: Callable[[], None],
) -> None:
    """Train the reruns that are missing, then score those that are not scored yet."""
    selection = read_selection(selection_file)
    reruns = range(resolved.experiment.confirm.reruns)
    specs = [rerun_specs(resolved, method, selection.hyperparameters, rerun) for rerun in reruns]
    jobs = [RunJob(s, resolved.resources, store.run(s.run_id).path) for group in specs for s in group]
    engine.map(run_job, jobs, on_done=on_run)
    runs = [tuple(store.run(spec.run_id).path for spec in group) for group in specs]
    _score(resolved, selection_file, store, engine, specs=specs, runs=runs)


def confirm_baseline(resolved: Resolved, selection_file: Path, store: Store, engine: Runner) -> None:
    """Score the network as it is before training: the row that every method must beat."""
    reruns = 1 if resolved.pretrained else resolved.experiment.confirm.reruns
    specs = [rerun_specs(resolved, resolved.methods[0], {}, rerun) for rerun in range(reruns)]
    _score(resolved, selection_file, store, engine, specs=specs, runs=[() for _ in specs])


def rerun_specs(
    resolved: Resolved, method: Method, hyperparameters: Mapping[str, Value], rerun: int
) -> tuple[RunSpec, ...]:
    """The runs of one rerun, fold by fold."""
    return tuple(
        resolved.run_spec(method, hyperparameters, fold=fold, seed=resolved.seed("confirm", rerun, fold))
        for fold in range(resolved.num_folds)
    )


def _score(
    resolved: Resolved,
    selection_file: Path,
    store: Store,
    engine: Runner,
    *,
    specs: list[tuple[RunSpec, ...]],
    runs: list[tuple[Path, ...]],
) -> None:
    """Open the test set once for all reruns that have no score yet."""
    selection = read_selection(selection_file).selection_id
    wanted = resolved.experiment.metrics
    known = store.reruns(selection, len(specs))
    outs = [store.rerun_file(selection, rerun) for rerun in range(len(specs))]
    missing = [rerun for rerun in range(len(specs)) if not is_scored(known.get(rerun), wanted)]
    look = resolved.repeat == 0 and resolved.experiment.confirm.gallery > 0  # at the first rerun
    unseen = look and 0 not in missing and _lacks_neighbours(known[0], outs[0], runs[0])
    if not missing and not unseen:
        return
    other_metrics = any(known[rerun].failed is None for rerun in missing if rerun in known)
    permit = open_test(
        store, selection_file, reruns=missing, other_metrics=other_metrics, only_pictures=not missing
    )

    def job(rerun: int, *, scored: bool) -> ScoreJob:
        return ScoreJob(
            specs[rerun],
            runs[rerun],
            permit,
            resolved.resources,
            wanted,
            outs[rerun],
            look=look and rerun == 0,
            scored=scored,
        )

    jobs = [job(rerun, scored=False) for rerun in missing]
    engine.map(score_rerun, [*([job(0, scored=True)] if unseen else []), *jobs])


def _lacks_neighbours(rerun: Rerun, out: Path, runs: tuple[Path, ...]) -> bool:
    """Whether a scored rerun has nothing to look at, though its models are there to make it."""
    file = out.with_suffix(".safetensors")
    if rerun.failed is not None or not file.exists() or not all(has_weights(run) for run in runs):
        return False
    with safe_open(file, framework="pt") as tensors:
        return not has_all(tensors.keys())


def is_scored(rerun: Rerun | None, wanted: tuple[str, ...]) -> bool:
    """Whether a rerun has every metric, by the code that the metric has now, or says why it failed."""
    if rerun is None:
        return False
    if rerun.failed is not None:
        return True
    return all(
        metric in rerun.concatenated and rerun.metric_sources.get(metric) == metric_source(metric)
        for metric in wanted
    )


def score_rerun(job: ScoreJob) -> None:
    """Embed the test set with each fold's model; write the scores, and each query's own values."""
    prepare_process(job.resources)
    folders = [RunFolder(path) for path in job.runs]
    results = [folder.result() for folder in folders]
    reasons = [r.reason for r in results if r is not None and r.status != "complete"]
    if reasons:
        write_rerun(job.out, Rerun(failed=reasons[0]))
        return
    test = test_view(job.permit, job.specs[0], job.resources)
    if folders:
        per_fold = [_embed_trained(job, test, fold) for fold in range(len(folders))]
        together = F.normalize(torch.cat(per_fold, dim=1))
    elif job.resources.weights == "none":
        per_fold = [_embed_untrained(job, test, fold) for fold in range(len(job.specs))]
        together = F.normalize(torch.cat(per_fold, dim=1))
    else:
        per_fold, together = _embed_pretrained(job, test)
    look = to_look_at(together, test) if job.look else {}
    if job.scored:
        file = job.out.with_suffix(".safetensors")
        write_bytes(file, save(load(file.read_bytes()) | look))
        return
    scores = [_evaluate(embeddings, test, job.metrics) for embeddings in per_fold]
    concatenated = _evaluate(together, test, job.metrics)
    for metric in job.metrics:
        if not np.isfinite([float(score[metric]) for score in (*scores, concatenated)]).all():
            raise RunError(
                f"{metric} of the test set is not a finite number; mend that metric, or leave it out of "
                "`metrics`, then give the same command again: finished work is kept"
            )
    spectrum = torch.as_tensor(metrics.spectrum(together), dtype=torch.float32)
    _save_arrays(job, test, scores, concatenated, {SPECTRUM: spectrum, **look})
    sources = {metric: metric_source(metric) for metric in job.metrics}
    write_rerun(
        job.out,
        Rerun(
            separated={m: float(np.mean([score[m] for score in scores])) for m in job.metrics},
            concatenated={m: float(concatenated[m]) for m in job.metrics},
            folds=tuple({m: float(score[m]) for m in job.metrics} for score in scores),
            best_epochs=tuple(result.best_epoch for result in results if result is not None),
            runs=tuple(spec.run_id for spec in job.specs) if folders else (),
            metric_sources={metric: source for metric, source in sources.items() if source is not None},
            collapse=next(
                (result.collapse for result in results if result is not None and result.collapse), ""
            ),
        ),
    )


def _embed_trained(job: ScoreJob, test: Dataset, fold: int) -> Tensor:
    """Test embeddings of one fold's best model."""
    spec = job.specs[fold]
    embedder = build_embedder(spec, job.resources)
    load_trained_part(embedder, load_best_weights(job.runs[fold]), mode=spec.trunk.mode)
    return _embed(embedder, job, test, spec)


def _embed_untrained(job: ScoreJob, test: Dataset, fold: int) -> Tensor:
    """Normalised trunk features of one fold's network before its first step."""
    return _embed(build_embedder(_without_head(job.specs[fold]), job.resources), job, test, job.specs[fold])


def _embed_pretrained(job: ScoreJob, test: Dataset) -> tuple[list[Tensor], Tensor]:
    """Pretrained trunk features, by PCA as wide as the methods' embeddings, separated and concatenated.

    The directions are fitted to the development images, as everything else is.
    """
    spec = job.specs[0]
    bare = build_embedder(_without_head(spec), job.resources)
    view = development(spec, job.resources)
    fitted = _embed(bare, job, view.dataset, spec, train=True, normalize=False)
    features = _embed(bare, job, test, spec, normalize=False)
    sizes = [min(size, *fitted.shape) for size in (spec.head.size, spec.head.size * len(job.specs))]
    small, large = (pca_head(fitted, size=size)(features) for size in sizes)
    return [small], large


def _without_head(spec: RunSpec) -> RunSpec:
    return spec.model_copy(update={"head": spec.head.model_copy(update={"kind": "none"})})


def _embed(
    embedder: models.Embedder,
    job: ScoreJob,
    dataset: Dataset,
    spec: RunSpec,
    *,
    train: bool = False,
    normalize: bool = True,
) -> Tensor:
    """Embeddings of every image of ``dataset``; bare features if not ``normalize``.

    ``train`` names the development images, whose features training has computed already.
    """
    embedder.to(job.resources.device).eval()
    inputs = inputs_of(dataset, spec, job.resources, train=train)
    frozen = spec.trunk.mode == "frozen"
    forward: Callable[[Tensor], Tensor]
    if normalize:
        forward = embedder.project if frozen else embedder
    else:
        forward = torch.nn.Identity() if frozen else embedder.features
    rows = np.arange(len(dataset), dtype=np.int64)
    size = spec.training.eval_batch_size
    embeddings = embed(forward, inputs, rows, batch_size=size, device=job.resources.device)
    # A method may train on embeddings of any length; what is compared, and concatenated, is their direction.
    return F.normalize(embeddings) if normalize and spec.head.normalize is False else embeddings


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


def _save_arrays(
    job: ScoreJob,
    test: Dataset,
    folds: list[metrics.Scores],
    together: metrics.Scores,
    more: dict[str, Tensor],
) -> None:
    """Keep what each query scored and its class: methods are compared class by class. And ``more``."""
    asked = np.ones(len(test), dtype=bool) if test.roles is None else (test.roles & QUERY) > 0
    tensors = {
        CLASSES: torch.as_tensor(test.labels[asked], dtype=torch.int64),
        **more,
    }
    for name in job.metrics:
        if name not in together.per_query:
            continue  # a measure of the whole space, such as NMI, has no value per query
        tensors[f"concatenated.{name}"] = torch.as_tensor(together.per_query[name], dtype=torch.float32)
        values = [torch.as_tensor(fold.per_query[name]) for fold in folds]
        tensors[f"separated.{name}"] = torch.stack(values).double().mean(dim=0).float()
    write_bytes(job.out.with_suffix(".safetensors"), save(tensors))
