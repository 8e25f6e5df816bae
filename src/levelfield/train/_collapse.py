"""Diagnosis of collapsed runs from their log, with the usual cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from levelfield.records import EpochLine

COLLAPSED_COSINE = 0.99  # mean cosine between embeddings that can hardly be distinguished
CONSTANT_LOSS = 1e-4  # relative change of a loss that counts as constant


def diagnose_collapse(
    lines: Sequence[EpochLine], metric: str, *, sign: int, margins: Mapping[str, float]
) -> str:
    """Return the diagnosis and the likely cause in one sentence; "" for a run that did not collapse.

    A run whose last score is better than its first score did not collapse.

    Args:
        lines: Log of the run; the first line is before training.
        metric: Selection metric.
        sign: -1 if a lower value of the metric is better.
        margins: Margins of the loss by name; some losses equal a margin when all distances are equal.

    Example:
        >>> start = EpochLine(epoch=0, loss=None, scores={"map_at_r": 0.3}, alike=0.5)
        >>> end = EpochLine(epoch=5, loss=0.2001, scores={"map_at_r": 0.1}, alike=0.999)
        >>> print(diagnose_collapse([start, end], "map_at_r", sign=1, margins={"margin": 0.2}))
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
    if alike is not None and alike >= COLLAPSED_COSINE:
        return _describe_equal_embeddings(alike, losses[-1], margins)
    if len(losses) > 2 and max(losses) - min(losses) <= CONSTANT_LOSS * abs(losses[-1]):
        return (
            f"the loss stays at {losses[-1]:.4g}: the learning rate is too low, or the loss has no gradient "
            "at these hyperparameters"
        )
    return ""


def _describe_equal_embeddings(alike: float, loss: float, margins: Mapping[str, float]) -> str:
    found = f"all embeddings are alike (mean cosine {alike:.3f})"
    for name, margin in margins.items():
        if abs(loss - margin) <= 0.02 * abs(margin):
            return (
                f"{found} and the loss stays at its {name} {margin:g}: the hardest negatives or too high a "
                "learning rate pulled everything together; take semi-hard ones, or a lower rate"
            )
    return f"{found}: the learning rate is too high, or what pulls together outweighs what pushes apart"
