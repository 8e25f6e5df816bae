"""Check that every fold can fill the batches of every method, and adapt the batches if allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from levelfield import samplers
from levelfield.config import BatchSpec
from levelfield.core.errors import UsageError
from levelfield.data.views import DevelopmentView
from levelfield.methods import Method, part_options


def fit_batches(
    chosen: Sequence[Method], batch: BatchSpec, view: DevelopmentView
) -> tuple[tuple[Method, ...], tuple[str, ...]]:
    """Return the methods, with samples per class adapted so that every fold can fill a batch, and notes.

    Raises:
        UsageError: A batch cannot be filled, and ``batch.adapt`` is off or does not help.
    """
    fitted, notes = [], []
    for method in chosen:
        wanted = method.resolve_samples_per_class(batch)
        problem = _problem(method, wanted, batch, view)
        if problem is None:
            fitted.append(method)
            continue
        if _key(method) is None:
            raise problem
        larger = [m for m in range(wanted + 1, batch.size + 1) if batch.size % m == 0]
        possible = next((m for m in larger if _problem(method, m, batch, view) is None), None)
        if possible is None or not batch.adapt:
            raise UsageError(_explain(method, problem, possible)) from problem
        fitted.append(replace(method, samples_per_class=possible))
        notes.append(
            f"{method.name}: batches hold {possible} samples per class instead of {wanted}, because the "
            f"smallest training fold has {_fewest_classes(view)} classes{_repeats_note(view, possible)}."
        )
    return tuple(fitted), tuple(notes)


def _problem(method: Method, samples: int, batch: BatchSpec, view: DevelopmentView) -> UsageError | None:
    """Return the error of the first fold that cannot fill a batch; None if all can."""
    options = part_options(method.fixed, "sampler")
    if "samples_per_class" in samplers.registry[method.sampler].parameters:
        options["samples_per_class"] = samples
    for fold in view.folds:
        labels = view.dataset.labels[fold.train]
        try:
            samplers.create(method.sampler, labels, batch_size=batch.size, seed=0, **options)
        except UsageError as error:
            return error
    return None


def _key(method: Method) -> str | None:
    """Return the experiment key of a method's samples per class; None if its sampler has no such option."""
    if "samples_per_class" not in samplers.registry[method.sampler].parameters:
        return None
    if method.samples_per_class is not None:
        return "methods: samples_per_class"
    if method.card.kind == "classification":
        return "batch.samples_per_class_classification"
    return "batch.samples_per_class"


def _explain(method: Method, problem: UsageError, possible: int | None) -> str:
    reason = str(problem).partition(";")[0]
    if possible is None:
        return f"method {method.name}: {reason}; set batch.size to a number that the classes can fill"
    return f"method {method.name}: {reason}; set {_key(method)} to {possible}, or batch.adapt to true"


def _repeats_note(view: DevelopmentView, samples: int) -> str:
    """Return the end of a note for classes with fewer images than a batch takes; else an empty string."""
    fewest = min(
        int(np.unique(view.dataset.labels[fold.train], return_counts=True)[1].min()) for fold in view.folds
    )
    if fewest >= samples:
        return ""
    return f"; the smallest class has {fewest} images, so a batch contains some images more than once"


def _fewest_classes(view: DevelopmentView) -> int:
    return min(len(set(view.dataset.labels[fold.train].tolist())) for fold in view.folds)
