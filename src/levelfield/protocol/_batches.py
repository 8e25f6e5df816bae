"""Whether every method's batches can be filled from every fold, and what to do where they cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from levelfield import batches
from levelfield.config import BatchSpec
from levelfield.data.views import DevelopmentView
from levelfield.errors import UsageError
from levelfield.methods import Method, part_options


def fit_batches(
    chosen: Sequence[Method], batch: BatchSpec, view: DevelopmentView
) -> tuple[tuple[Method, ...], tuple[str, ...]]:
    """The methods with samples per class that the folds' classes can fill, and notes of what was adapted.

    Raises:
        UsageError: A batch cannot be filled, and ``batch.adapt`` is off or does not help.
    """
    fitted, notes = [], []
    for method in chosen:
        wanted = method.with_samples(batch)
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
            f"smallest training fold has {_fewest_classes(view)} classes{_repeats(view, possible)}."
        )
    return tuple(fitted), tuple(notes)


def _problem(method: Method, samples: int, batch: BatchSpec, view: DevelopmentView) -> UsageError | None:
    """Why a batch cannot be filled in some fold; None if it can in all."""
    options = part_options(method.fixed, "sampler")
    if "samples_per_class" in batches.registry[method.sampler].parameters:
        options["samples_per_class"] = samples
    for fold in view.folds:
        labels = view.dataset.labels[fold.train]
        try:
            batches.create(method.sampler, labels, batch_size=batch.size, seed=0, **options)
        except UsageError as error:
            return error
    return None


def _key(method: Method) -> str | None:
    """The key of the experiment file that sets a method's samples per class; None if its sampler has none."""
    if "samples_per_class" not in batches.registry[method.sampler].parameters:
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


def _repeats(view: DevelopmentView, samples: int) -> str:
    """What a reader must know where classes have fewer pictures than a batch takes of them."""
    fewest = min(
        int(np.unique(view.dataset.labels[fold.train], return_counts=True)[1].min()) for fold in view.folds
    )
    if fewest >= samples:
        return ""
    return f"; the smallest class has {fewest} pictures, so that a batch holds some more than once"


def _fewest_classes(view: DevelopmentView) -> int:
    return min(len(set(view.dataset.labels[fold.train].tolist())) for fold in view.folds)
