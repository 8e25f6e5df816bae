"""Scoring: embed the test images with a rerun's models and compute the metrics; runs in any worker.

Each rerun has two scores, as in "A Metric Learning Reality Check". *Separated* is the mean over the folds'
models. *Concatenated* scores the concatenation of the folds' embeddings, normalized again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn import functional as F

from levelfield import engine, metrics, models
from levelfield.core.files import write_bytes
from levelfield.data import Dataset
from levelfield.models.pca import pca_head
from levelfield.protocol.confirm._neighbors import gallery_arrays
from levelfield.protocol.confirm._reranking import score_rerankers
from levelfield.protocol.guard import TestPermit, test_view
from levelfield.protocol.spec._resolved import metric_source
from levelfield.records import CLASSES, SPECTRUM, RerankedScores, Rerun, RunDirectory, RunSpec, write_rerun
from levelfield.retrieval.scoring import query_rows, score_concatenation
from levelfield.train import (
    DataJob,
    Resources,
    build_embedder,
    compute_trunk_features,
    create_inputs,
    describe_unusable,
    embed,
    initialize_head,
    load_development_view,
    load_trained_state_dict,
    prepare_process,
    uses_cached_features,
)
from levelfield.train.checkpoint import load_best_weights


@dataclass(frozen=True)
class ScoreJob(DataJob):
    """Job that scores one rerun's models on the test set.

    Attributes:
        specs: Specs of the runs, fold by fold.
        runs: Directories of the runs; empty for the baseline, which is not trained.
        permit: Permission to read the test set.
        resources: Local paths and devices.
        metrics: Names of the metrics.
        out: File of the scores.
        gallery: Also write the arrays of the retrieval gallery.
        scored: The scores exist already; write the gallery arrays only.
        rerank: Names of re-rankings to score as well.
    """

    specs: tuple[RunSpec, ...]
    runs: tuple[Path, ...]
    permit: TestPermit
    resources: Resources
    metrics: tuple[str, ...]
    out: Path
    gallery: bool = False
    scored: bool = False
    rerank: tuple[str, ...] = ()

    @property
    def data_spec(self) -> RunSpec:
        """Spec of the first fold's run."""
        return self.specs[0]


@dataclass(frozen=True)
class FeatureJob(DataJob):
    """Job that computes a frozen trunk's features; with a permit those of the test images."""

    spec: RunSpec
    resources: Resources
    permit: TestPermit | None = None

    @property
    def data_spec(self) -> RunSpec:
        """The run."""
        return self.spec


def compute_features(job: FeatureJob) -> None:
    """Fill the feature cache, using all cores, before the jobs that need it."""
    prepare_process(job.resources)
    if job.permit is None:
        dataset = load_development_view(job.spec, job.resources).dataset
    else:
        dataset = test_view(job.permit, job.spec, job.resources)
    compute_trunk_features(
        dataset, job.spec, job.resources, train=job.permit is None, progress=engine.report_progress
    )


def score_rerun(job: ScoreJob) -> None:
    """Embed the test set with each fold's model, and write the scores and the values per query."""
    prepare_process(job.resources)
    directories = [RunDirectory(path) for path in job.runs]
    results = [directory.result() for directory in directories]
    reasons = [r.reason for r in results if r is not None and r.status != "complete"]
    if reasons:
        write_rerun(job.out, Rerun(failed=reasons[0]))
        return
    test = test_view(job.permit, job.specs[0], job.resources)
    other: Tensor | None = None
    if directories:
        per_fold = [_embed_trained(job, test, fold) for fold in range(len(directories))]
    elif job.resources.weights == "none":
        per_fold = [_embed_untrained(job, test, fold) for fold in range(len(job.specs))]
    elif job.specs[0].head.init != "random":
        per_fold = [_embed_start(job, test, fold) for fold in range(len(job.specs))]
    else:  # what stands for the concatenation has its size, but is not made of parts
        per_fold, other = _embed_pretrained(job, test)
    concatenated_embeddings = F.normalize(torch.cat(per_fold, dim=1)) if other is None else other
    if unusable := next(filter(None, map(describe_unusable, per_fold)), ""):
        write_rerun(job.out, Rerun(failed=f"{unusable}, of the test images"))
        return
    for_gallery = gallery_arrays(concatenated_embeddings, test) if job.gallery else {}
    if job.scored:
        file = job.out.with_suffix(".safetensors")
        write_bytes(file, save(load(file.read_bytes()) | for_gallery))
        return
    scores, concatenated = score_concatenation(per_fold, test, metrics=job.metrics)
    if other is not None:
        concatenated = score_concatenation([other], test, metrics=job.metrics)[0][0]
    spectrum = torch.as_tensor(metrics.spectrum(concatenated_embeddings), dtype=torch.float32)
    _save_arrays(job, test, scores, concatenated, {SPECTRUM: spectrum, **for_gallery})
    sources = {metric: metric_source(metric) for metric in job.metrics}
    write_rerun(
        job.out,
        Rerun(
            separated={m: float(np.mean([score[m] for score in scores])) for m in job.metrics},
            concatenated={m: float(concatenated[m]) for m in job.metrics},
            folds=tuple({m: float(score[m]) for m in job.metrics} for score in scores),
            best_epochs=tuple(result.best_epoch for result in results if result is not None),
            runs=tuple(spec.run_id for spec in job.specs) if directories else (),
            metric_sources={metric: source for metric, source in sources.items() if source is not None},
            collapse=next(
                (result.collapse for result in results if result is not None and result.collapse), ""
            ),
            reranked=_score_rerankers(job, test, per_fold[0]) if job.rerank and directories else (),
        ),
    )


def _score_rerankers(job: ScoreJob, test: Dataset, embeddings: Tensor) -> tuple[RerankedScores, ...]:
    """Return the re-ranking scores of the first fold's model, tuned on that fold's validation classes."""
    view = load_development_view(job.specs[0], job.resources)
    rows = view.folds[job.specs[0].fold].validation
    validation = _embed_trained(job, view.dataset, 0, train=True)[torch.from_numpy(rows)]
    return score_rerankers(job.rerank, test, embeddings, validation, view.dataset.labels[rows])


def _embed_trained(job: ScoreJob, dataset: Dataset, fold: int, *, train: bool = False) -> Tensor:
    """Return embeddings by one fold's best model; ``train`` means that ``dataset`` is the development set."""
    spec = job.specs[fold]
    embedder = build_embedder(spec, job.resources)
    load_trained_state_dict(embedder, load_best_weights(job.runs[fold]), mode=spec.trunk.mode)
    return _embed(embedder, job, dataset, spec, train=train)


def _embed_untrained(job: ScoreJob, test: Dataset, fold: int) -> Tensor:
    """Return the normalized trunk features of one fold's network before its first step."""
    return _embed(build_embedder(_without_head(job.specs[fold]), job.resources), job, test, job.specs[fold])


def _embed_start(job: ScoreJob, test: Dataset, fold: int) -> Tensor:
    """Return embeddings by one fold's network at epoch 0, computed exactly as a run of a method starts."""
    spec = job.specs[fold]
    fitted = build_embedder(spec, job.resources).to(job.resources.device)
    if not uses_cached_features(spec):
        fitted.to(memory_format=torch.channels_last)  # as in training: the layout changes the last bits
    view = load_development_view(spec, job.resources)
    with closing(create_inputs(view.dataset, spec, job.resources, train=True)) as inputs:
        initialize_head(spec, fitted, inputs, view.folds[spec.fold].train, device=job.resources.device)
    embedder = build_embedder(spec, job.resources)
    embedder.head.load_state_dict({name: value.cpu() for name, value in fitted.head.state_dict().items()})
    return _embed(embedder, job, test, spec)


def _embed_pretrained(job: ScoreJob, test: Dataset) -> tuple[list[Tensor], Tensor]:
    """Return pretrained trunk features, reduced by PCA to the size of the methods' embeddings.

    The first result has the size of one fold's embeddings, the second that of the concatenated ones. The PCA
    is fitted to the development images.
    """
    spec = job.specs[0]
    bare = build_embedder(_without_head(spec), job.resources)
    view = load_development_view(spec, job.resources)
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
    """Return embeddings of all images of ``dataset``, or plain features without ``normalize``.

    ``train`` means that ``dataset`` is the development set, whose features are cached by training.
    """
    embedder.to(job.resources.device).eval()
    frozen = spec.trunk.mode == "frozen"
    forward: Callable[[Tensor], Tensor]
    if normalize:
        forward = embedder.project if frozen else embedder
    else:
        forward = torch.nn.Identity() if frozen else embedder.features
    rows = np.arange(len(dataset), dtype=np.int64)
    size = spec.training.eval_batch_size
    with closing(create_inputs(dataset, spec, job.resources, train=train)) as inputs:
        embeddings = embed(forward, inputs, rows, batch_size=size, device=job.resources.device)
    # A method may train on unnormalized embeddings; scores and concatenation use their direction only.
    return F.normalize(embeddings) if normalize and spec.head.normalize is False else embeddings


def _save_arrays(
    job: ScoreJob,
    test: Dataset,
    folds: list[metrics.Scores],
    concatenated: metrics.Scores,
    more: dict[str, Tensor],
) -> None:
    """Write the value and the class of each query, and the arrays in ``more``."""
    tensors = {
        CLASSES: torch.as_tensor(test.labels[query_rows(test)], dtype=torch.int64),
        **more,
    }
    for name in job.metrics:
        if name not in concatenated.per_query:
            continue  # a metric of the whole space, such as NMI, has no value per query
        tensors[f"concatenated.{name}"] = torch.as_tensor(concatenated.per_query[name], dtype=torch.float32)
        values = [torch.as_tensor(fold.per_query[name]) for fold in folds]
        tensors[f"separated.{name}"] = torch.stack(values).double().mean(dim=0).float()
    write_bytes(job.out.with_suffix(".safetensors"), save(tensors))
