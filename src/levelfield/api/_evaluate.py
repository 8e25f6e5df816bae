"""``lf.evaluate``: scores of embeddings, and the comparison of several models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from levelfield.analysis import ModelScores, compare_models
from levelfield.api._evaluation_result import EvaluationResult
from levelfield.api._model_sources import Source, list_sources
from levelfield.api._nearest_images import GalleryInput
from levelfield.api._ranked_models import score_ranked_models
from levelfield.api._same_items import Items, count_duplicates
from levelfield.core.errors import LevelfieldError, UsageError
from levelfield.metrics import DEFAULT_METRICS, Scores
from levelfield.metrics import evaluate as score
from levelfield.metrics.files import EmbeddingFile

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
        labels = range(len(relevant)) if classes is None else classes  # units of the verdict
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
    images: Sequence[str | Path] | None = None,
    metric: str | None = None,
    equivalence: float | None = None,
    progress: Callable[[str], Progress] | None = None,
    **options: Any,
) -> EvaluationResult:
    """Score each seed of each model, and compare the models.

    Args:
        queries: Sources of each model, one per seed.
        galleries: Sources of each model's gallery, one per seed; None if the queries are the gallery.
        metrics: Metric names.
        images: Image file of each item: the queries, then the gallery if there is one.
        metric: Metric of the verdict.
        equivalence: Largest difference that does not matter, as tables print it.
        progress: Called with the name of each source; returns the callback for its queries.
        options: Options of :func:`levelfield.metrics.evaluate`.
    """
    work = _Scoring(metrics, options, progress)
    models: dict[str, ModelScores] = {}
    for name, sources in queries.items():
        asked = [None] * len(sources) if galleries is None else list(galleries.get(name, ()))
        if len(asked) != len(sources):
            work.left_out[name] = (
                f"there are {len(sources)} seeds but {len(asked)} galleries; give one gallery per seed"
            )
            continue
        found = [
            each
            for source, held in zip(sources, asked, strict=True)
            if (each := work.attempt(source, held)) is not None
        ]
        if found:
            models[name] = _stack(found)
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
            queries={name: queries[name][0] for name in models},
            galleries=None if galleries is None else {name: galleries[name][0] for name in models},
            items=work.items,
            gallery_items=work.gallery_items,
            images=[Path(image) for image in images],
            distance=options.get("distance", "cosine"),
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


def _stack(found: Sequence[Scores]) -> ModelScores:
    per_query = {name: np.stack([each.per_query[name] for each in found]) for name in found[0].per_query}
    whole = {name: np.array([each[name] for each in found]) for name in found[0] if name not in per_query}
    return ModelScores(per_query, whole)


class _Scoring:
    """Scoring of one source after the other; remembers the items, and the reasons of failures."""

    def __init__(
        self, metrics: Sequence[str], options: Mapping[str, Any], progress: Callable[[str], Progress] | None
    ) -> None:
        self.metrics, self.options, self.progress = metrics, options, progress
        self.items: Items | None = None
        self.gallery_items: Items | None = None
        self.by_lists = "relevant" in options  # classes of the gallery then say nothing
        self.left_out: dict[str, str] = {}
        self.notes: list[str] = []

    def attempt(self, source: Source, held: Source | None) -> Scores | None:
        """Return the scores of a source; None, with the reason in ``left_out``, if it has none."""
        try:
            return self.score(source, held)
        except LevelfieldError as error:
            text = str(error)
            self.left_out[source.name] = text if source.name in text else f"{source.name}: {text}"
            return None

    def score(self, source: Source, held: Source | None) -> Scores:
        found = source.load()
        items, found = self._align(self.items, found, source.name)
        chosen, gallery = self.gallery_items, None
        if held is not None:
            loaded = held.load()
            if self.by_lists and loaded.labels is None:
                loaded = replace(loaded, labels=np.zeros(len(loaded.embeddings), dtype=np.int64))
            chosen, gallery = self._align(self.gallery_items, loaded, held.name)
        callback = None if self.progress is None else self.progress(source.name)
        scores = score(
            found.embeddings,
            found.labels,
            metrics=self.metrics,
            gallery=None if gallery is None else gallery.embeddings,
            gallery_labels=None if gallery is None or self.by_lists else gallery.labels,
            per_query=True,
            progress=callback,
            **self.options,
        )
        self.items, self.gallery_items = items, chosen  # only a source that can be scored is the reference
        self._note(scores, found, source.name, alone=held is None)
        return scores

    def _align(self, items: Items | None, found: EmbeddingFile, name: str) -> tuple[Items, EmbeddingFile]:
        if items is None:
            return Items.of(found, name), found
        found, moved = items.align(found, name)
        if moved:
            self.notes.append(f"The rows of {name} were put in the order of {items.source}, by their ids.")
        return items, found

    def _note(self, scores: Scores, found: EmbeddingFile, name: str, *, alone: bool) -> None:
        copies = count_duplicates(found.embeddings) if alone else 0
        if copies:
            self.notes.append(f"{name}: {copies} rows repeat another row exactly; a copy is found first.")
        skipped = f"{scores.skipped} queries without a relevant item were left out."
        found_notes = [skipped] if scores.skipped else []
        found_notes += [f"{note}." for note in scores.notes]
        self.notes += [note for note in found_notes if note not in self.notes]
