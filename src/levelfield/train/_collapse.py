"""Whether a run collapsed, told from its measurements, and what usually causes that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from levelfield.records import EpochLine

ALIKE = (
    0.99  # mean cosine between two embeddings from which on there is hardly anything to tell them apart by
)
STUCK = 1e-4  # relative change of the loss that is no change


def collapse_of(lines: Sequence[EpochLine], metric: str, *, sign: int, margins: Mapping[str, float]) -> str:
    """What went wrong and the likely cause, in one sentence; "" for a run that learned something.

    A run whose last score is better than its first did not collapse, whatever else it shows.

    Args:
        lines: The measurements, the first of them before training.
        metric: By which the run is judged.
        sign: -1 if a smaller value of it is better.
        margins: Hyperparameters that a loss takes as its value when all distances are equal, by name.

    Example:
        >>> start = EpochLine(epoch=0, loss=None, scores={"map_at_r": 0.3}, alike=0.5)
        >>> end = EpochLine(epoch=5, loss=0.2001, scores={"map_at_r": 0.1}, alike=0.999)
        >>> print(collapse_of([start, end], "map_at_r", sign=1, margins={"margin": 0.2}))
        all embeddings are alike (mean cosine 0.999) and the loss stays at its margin 0.2: ...
    """
    trained = [line for line in lines if line.loss is not None]
    if not trained or sign * (trained[-1].scores[metric] - lines[0].scores[metric]) > 0:
        return ""
    losses = [line.loss for line in trained if line.loss is not None]
    if not any(losses):
        return (
            "the loss was 0 in every epoch: batches or miner give no tuples, or all of them meet the margin "
            "from the start; take more samples per class, a miner that finds some, or a larger margin"
        )
    alike = trained[-1].alike
    if alike is not None and alike >= ALIKE:
        return _alike(alike, losses[-1], margins)
    if len(losses) > 2 and max(losses) - min(losses) <= STUCK * abs(losses[-1]):
        return (
            f"the loss stays at {losses[-1]:.4g}: the learning rate is too low, or the loss has no gradient "
            "at these hyperparameters"
        )
    return ""


def _alike(alike: float, loss: float, margins: Mapping[str, float]) -> str:
    found = f"all embeddings are alike (mean cosine {alike:.3f})"
    for name, margin in margins.items():
        if abs(loss - margin) <= 0.02 * abs(margin):
            return (
                f"{found} and the loss stays at its {name} {margin:g}: the hardest negatives or too high a "
                "learning rate pulled everything together; take semi-hard ones, or a lower rate"
            )
    return f"{found}: the learning rate is too high, or what pulls together outweighs what pushes apart"
