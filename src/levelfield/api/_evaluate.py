"""``lf.evaluate``: scores of embeddings, and the comparison of several models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from levelfield.analysis import ModelScores, compare_models
from levelfield.api._evaluation_result import EvaluationResult
from levelfield.api._model_sources import Source, list_sources
from levelfield.api._named_lists import NamedLists
from levelfield.api._nearest_images import GalleryInput
from levelfield.api._ranked_models import score_ranked_models
from levelfield.api._same_items import Items
from levelfield.api._score_sources import SourceScoring, stack_scores
from levelfield.core.errors import UsageError
from levelfield.metrics import DEFAULT_METRICS, Scores
from levelfield.metrics import evaluate as score

Progress = Callable[[int, int], None]


@overload
def evaluate(embeddings: Mapping[str, Any], labels: Any = None, **options: Any) -> EvaluationResult: ...
@overload
def evaluate(*, rankings: Mapping[str, Any], **options: Any) -> EvaluationResult: ...
@overload
def evaluate(embeddings: Any, labels: Any = None, **options: Any) -> Scores: ...
def evaluate(
    embeddings: Any = None,
    labels: Any = None,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    gallery: Any = None,
    gallery_labels: Any = None,
    rankings: Mapping[str, Any] | None = None,
    relevant: Sequence[Any] | None = None,
    ignore: Sequence[Any] | None = None,
    classes: Any = None,
    inputs: Any = None,
    images: Sequence[str | Path] | None = None,
    metric: str | None = None,
    equivalence: float | None = None,
    **options: Any,
) -> Scores | EvaluationResult:
    """Score embeddings of one model, or compare several models on the same items.

    With an array, this is :func:`levelfield.metrics.evaluate`. With a mapping, the models in it are scored
    and compared: the result has scores with intervals, a verdict, and all pairs of models. A model that
    cannot be scored is named in ``left_out``, and the others are compared.

    Args:
        embeddings: Embeddings (N x D), or a mapping from model names to: ``(embeddings, labels)``,
            embeddings, the path of a file, a function from a batch of ``inputs`` to embeddings, or a list of
            these, one per seed.
        labels: Class of each item (N), for models without labels of their own.
        metrics: Metric names; `levelfield ls metrics` lists them.
        gallery: Items to search. For several models a mapping like the first argument, since each model has
            its own space. Defaults to the queries; a query never finds itself.
        gallery_labels: Class of each gallery item.
        rankings: Instead of embeddings: retrieved ids of each query, best first, by system. Or a function
            from a query to ids, called with each of ``inputs``.
        relevant: Relevant items of each query: row numbers of the gallery, or ids for ``rankings``. Without
            it, items of the query's class in ``labels`` are relevant; for ``rankings``, ``gallery_labels`` is
            then a mapping from ids to classes.
        ignore: Items of each query that are neither right nor wrong; they are taken out of its ranking.
        classes: Class or group of each query for the verdict, where ``labels`` are not given.
        inputs: Inputs of the functions among the models.
        images: Image file of each item, for the retrieval gallery of the report.
        metric: Metric of the verdict. Defaults to MAP@R if it is among ``metrics``, else the first.
        equivalence: Largest difference that does not matter, as tables print it: 0.5 is half a point.
        options: Options of :func:`levelfield.metrics.evaluate`: ``distance``, ``seed``, ``index`` and others.

    Returns:
        The scores of one model, or an :class:`EvaluationResult` for a mapping.

    Example:
        >>> random = np.random.default_rng(0)
        >>> y = np.arange(200) // 10
        >>> x = np.eye(20)[y] + random.normal(0, 0.2, (200, 20))
        >>> worse = x + random.normal(0, 0.3, (200, 20))
        >>> evaluate({"new": (x, y), "old": (worse, y)}).best
        ('new',)
    """
    if rankings is not None:
        if embeddings is not None or gallery is not None or options:
            raise UsageError("rankings take the place of embeddings; leave embeddings and their options out")
        scored = score_ranked_models(
            rankings,
            labels=labels,
            gallery_labels=gallery_labels,
            relevant=relevant,
            metrics=metrics,
            inputs=inputs,
            ignore=ignore,
        )
        return _compare(
            scored.models,
            scored.left_out,
            classes=classes if labels is None else labels,
            metric=metric,
            equivalence=equivalence,
        )
    options |= {} if relevant is None else {"relevant": relevant}
    options |= {} if ignore is None else {"ignore": ignore}
    if not isinstance(embeddings, Mapping):
        return score(
            embeddings, labels, metrics=metrics, gallery=gallery, gallery_labels=gallery_labels, **options
        )
    if gallery is not None and not isinstance(gallery, Mapping):
        raise UsageError(
            "gallery is one set for several models; give a mapping from model names to galleries"
        )
    if relevant is not None and labels is None:
        labels = classes  # units of the verdict
    queries = list_sources(embeddings, labels=labels, inputs=inputs)
    galleries = None if gallery is None else list_sources(gallery, labels=gallery_labels)
    return evaluate_sources(
        queries, galleries, metrics=metrics, images=images, metric=metric, equivalence=equivalence, **options
    )


def evaluate_sources(
    queries: Mapping[str, Sequence[Source]],
    galleries: Mapping[str, Sequence[Source]] | None,
    *,
    metrics: Sequence[str],
    images: Sequence[str | Path] | Callable[[Items, Items | None], Sequence[Path]] | None = None,
    metric: str | None = None,
    equivalence: float | None = None,
    lists: NamedLists | None = None,
    progress: Callable[[str], Progress] | None = None,
    **options: Any,
) -> EvaluationResult:
    """Score each seed of each model, and compare the models.

    Args:
        queries: Sources of each model, one per seed.
        galleries: Sources of each model's gallery, one per seed; None if the queries are the gallery.
        metrics: Metric names.
        images: Image file of each item: the queries, then the gallery if there is one. Or a function that
            returns them for the items of the queries and of the gallery.
        metric: Metric of the verdict.
        equivalence: Largest difference that does not matter, as tables print it.
        lists: What is relevant to each query, by the names of the items.
        progress: Called with the name of each source; returns the callback for its queries.
        options: Options of :func:`levelfield.metrics.evaluate`.
    """
    work = SourceScoring(metrics, options, progress, lists=lists)
    models: dict[str, ModelScores] = {}
    shown: dict[str, tuple[Source, Source | None]] = {}
    for name, sources in queries.items():
        asked = [None] * len(sources) if galleries is None else list(galleries.get(name, ()))
        if len(asked) != len(sources):
            work.left_out[name] = (
                f"there are {len(sources)} seeds but {len(asked)} galleries; give one gallery per seed"
            )
            continue
        found = [
            (source, held, each)
            for source, held in zip(sources, asked, strict=True)
            if (each := work.attempt(source, held)) is not None
        ]
        if found:
            models[name] = stack_scores([each for *_, each in found])
            shown[name] = found[0][:2]
    if work.items is None:
        raise UsageError(next(iter(work.left_out.values()), "there is no model to score; give at least one"))
    result = _compare(
        models,
        work.left_out,
        classes=work.items.labels,
        names=None if work.items.ids is None else work.items.ids.tolist(),
        metric=metric,
        equivalence=equivalence,
        notes=work.notes,
        asked=len(queries),
    )
    if images is None:
        return result
    return result.with_gallery(
        GalleryInput(
            queries={name: work.asked(source) for name, (source, _) in shown.items()},
            galleries={name: work.held(held) for name, (_, held) in shown.items() if held is not None},
            items=work.items,
            gallery_items=work.gallery_items,
            images=images(work.items, work.gallery_items) if callable(images) else list(map(Path, images)),
            distance=options.get("distance", "cosine"),
            relevant=work.relevant,
            ignored=work.ignored,
        )
    )


def _compare(
    models: Mapping[str, ModelScores],
    left_out: Mapping[str, str],
    *,
    classes: Any,
    names: Sequence[str] | None = None,
    metric: str | None,
    equivalence: float | None,
    notes: Sequence[str] = (),
    asked: int | None = None,
) -> EvaluationResult:
    asked = len(models) + len(left_out) if asked is None else asked
    if left_out and len(models) < min(asked, 2):  # nothing is left to compare
        raise UsageError(next(iter(left_out.values())))
    lines = [f"{name} was left out: {reason}." for name, reason in left_out.items()]
    comparison = compare_models(
        models,
        classes=None if classes is None else np.asarray(classes),
        names=names,
        metric=metric,
        equivalence=equivalence,
        notes=lines,
        remarks=notes,
    )
    return EvaluationResult(comparison, left_out=dict(left_out))
