"""Whether every fold can be measured on its validation classes, and what to do where it cannot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from levelfield.config import Experiment, SplitSpec
from levelfield.data import splits
from levelfield.data.views import DevelopmentView
from levelfield.errors import UsageError

Open = Callable[[Experiment], DevelopmentView]


def open_with_folds(experiment: Experiment, open_view: Open) -> tuple[Experiment, DevelopmentView, list[str]]:
    """The development view, with fewer folds than asked for where a few classes cannot fill so many.

    Retrieval among pictures of one class is always perfect: a fold that validates on it chooses nothing.

    Returns:
        The experiment with the folds it gets, its view, and notes of what was adapted.

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
    if asked is None or not experiment.batch.adapt:
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
        "split.test_fraction lower, or add pictures of more classes"
    )


def _folds(experiment: Experiment) -> int | None:
    """How many folds the split makes, if that can be chosen."""
    parameters = splits.registry[experiment.split.name].parameters
    if "folds" not in parameters:
        return None
    return int(experiment.split.options.get("folds", parameters["folds"].default))


def _with_folds(experiment: Experiment, folds: int) -> Experiment:
    split = SplitSpec(name=experiment.split.name, **{**experiment.split.options, "folds": folds})
    return experiment.model_copy(update={"split": split})
