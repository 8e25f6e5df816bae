"""Scoring: the test images through a rerun's models, in whichever process the job comes to.

Two scores per rerun, as in "A Metric Learning Reality Check". *Separated*: the mean over the folds' models.
*Concatenated*: the folds' embeddings of an image side by side, normalised again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn import functional as F

from levelfield import engine, metrics, models
from levelfield.data import GALLERY, QUERY, Dataset
from levelfield.errors import RunError
from levelfield.files import write_bytes
from levelfield.models.pca import pca_head
from levelfield.protocol._neighbours import to_look_at
from levelfield.protocol._reranking import reranked
from levelfield.protocol._resolved import metric_source
from levelfield.protocol.guard import TestPermit, test_view
from levelfield.records import CLASSES, SPECTRUM, Reranked, Rerun, RunFolder, RunSpec, write_rerun
from levelfield.train import (
    Resources,
    build_embedder,
    development,
    embed,
    inputs_of,
    load_trained_part,
    prepare_process,
    trunk_features,
)
from levelfield.train.checkpoint import load_best_weights


@dataclass(frozen=True)
class ScoreJob:
    """Score one rerun's models on the test set. Without ``runs`` the models are left untrained.

    With ``look`` the nearest neighbours of queries are kept too, for the gallery; where the scores are there
    already (``scored``), nothing else is written. ``rerank`` names ways of re-ranking to be measured too.
    """

    specs: tuple[RunSpec, ...]
    runs: tuple[Path, ...]
    permit: TestPermit
    resources: Resources
    metrics: tuple[str, ...]
    out: Path
    look: bool = False
    scored: bool = False
    rerank: tuple[str, ...] = ()


@dataclass(frozen=True)
class FeatureJob:
    """Compute what a frozen trunk gives, of the development images or, with a permit, of the test images."""

    spec: RunSpec
    resources: Resources
    permit: TestPermit | None = None


def compute_features(job: FeatureJob) -> None:
    """Fill the feature cache, with all cores: once, before the jobs that need it."""
    prepare_process(job.resources)
    if job.permit is None:
        dataset = development(job.spec, job.resources).dataset
    else:
        dataset = test_view(job.permit, job.spec, job.resources)
    trunk_features(dataset, job.spec, job.resources, train=job.permit is None, progress=engine.report)


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
            reranked=_reranked(job, test, per_fold[0]) if job.rerank and folders else (),
        ),
    )


def _reranked(job: ScoreJob, test: Dataset, embeddings: Tensor) -> tuple[Reranked, ...]:
    """What re-ranking does to the first fold's model, chosen on that fold's validation classes."""
    view = development(job.specs[0], job.resources)
    rows = view.folds[job.specs[0].fold].validation
    validation = _embed_trained(job, view.dataset, 0, train=True)[torch.from_numpy(rows)]
    return reranked(job.rerank, test, embeddings, validation, view.dataset.labels[rows])


def _embed_trained(job: ScoreJob, dataset: Dataset, fold: int, *, train: bool = False) -> Tensor:
    """Embeddings of one fold's best model; ``train`` says that they are of the development images."""
    spec = job.specs[fold]
    embedder = build_embedder(spec, job.resources)
    load_trained_part(embedder, load_best_weights(job.runs[fold]), mode=spec.trunk.mode)
    return _embed(embedder, job, dataset, spec, train=train)


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
