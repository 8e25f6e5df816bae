"""Check that the training images of every fold span the dimensions of a fitted head; else make it smaller."""

from __future__ import annotations

from levelfield.config import Experiment, HeadSpec
from levelfield.data.views import DevelopmentView

FITTED = ("pca", "whitening")


def fit_head_size(experiment: Experiment, view: DevelopmentView) -> tuple[Experiment, list[str]]:
    """Return the experiment with an embedding size that every fold can fit, and notes.

    N images span N - 1 directions around their mean. A larger head would be completed with random directions,
    which would differ between reruns. The size is adapted only with ``batch.adapt``.
    """
    head, fewest = experiment.head, _fewest_images(view)
    fitted = head.init in FITTED and has_random_start(head, view)
    if not (experiment.batch.adapt and fitted and fewest > 2):
        return experiment, []
    note = (
        f"embeddings have {fewest - 1} dimensions instead of {head.size}: the smallest training fold has "
        f"{fewest} images, which span no more."
    )
    smaller = head.model_copy(update={"size": fewest - 1})
    return experiment.model_copy(update={"head": smaller}), [note]


def has_random_start(head: HeadSpec, view: DevelopmentView) -> bool:
    """Return True if a fitted head gets directions that are drawn from the seed of the run."""
    return head.init == "orthogonal" or (head.init in FITTED and head.size > _fewest_images(view) - 1)


def _fewest_images(view: DevelopmentView) -> int:
    return min(len(fold.train) for fold in view.folds)
