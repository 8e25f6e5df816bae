"""Check that every fold has at least two validation classes, and reduce the folds if allowed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from levelfield.config import Experiment, SplitSpec
from levelfield.core.errors import UsageError
from levelfield.data import splits
from levelfield.data.views import DevelopmentView

MAX_ADAPTED_FOLDS = 100  # each lower number is tried in turn
OpenView = Callable[[Experiment], DevelopmentView]


def open_with_folds(
    experiment: Experiment, open_view: OpenView
) -> tuple[Experiment, DevelopmentView, list[str]]:
    """Open the development view, with fewer folds than requested if there are too few classes.

    Retrieval among images of one class is always perfect, so a fold with one validation class cannot select.

    Returns:
        The experiment with its final number of folds, its view, and notes on the adaptation.

    Raises:
        UsageError: A fold has one validation class, and ``batch.adapt`` is off or does not help.
    """
    try:
        view = open_view(experiment)
        problem = _problem(view)
    except UsageError as error:
        problem = error
    if problem is None:
        return experiment, view, []
    asked = _folds(experiment)
    if asked is None or asked > MAX_ADAPTED_FOLDS or not experiment.batch.adapt:
        raise problem
    for folds in range(asked - 1, 1, -1):
        fewer = _with_folds(experiment, folds)
        try:
            view = open_view(fewer)
        except UsageError:
            continue
        if _problem(view) is None:
            note = f"{folds} folds instead of {asked}: with more, a fold would have one class to validate on."
            return fewer, view, [note]
    raise problem


def _problem(view: DevelopmentView) -> UsageError | None:
    classes = [len(np.unique(view.dataset.labels[fold.validation])) for fold in view.folds]
    if 1 not in classes:
        return None
    return UsageError(
        "a fold has one class to validate on, where every method is perfect; set split.folds lower, "
        "split.test_fraction lower, or add images of more classes"
    )


def _folds(experiment: Experiment) -> int | None:
    """Return the number of folds of the split; None if it cannot be chosen."""
    parameters = splits.registry[experiment.split.name].parameters
    if "folds" not in parameters:
        return None
    return int(experiment.split.options.get("folds", parameters["folds"].default))


def _with_folds(experiment: Experiment, folds: int) -> Experiment:
    split = SplitSpec(name=experiment.split.name, **{**experiment.split.options, "folds": folds})
    return experiment.model_copy(update={"split": split})
