"""Ranked list loss: positives within one distance, negatives beyond a larger one."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import MinedTuples, loss_of_distances, pair_masks, select_batch_rows
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._logsumexp import softmax_weights
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, TupleSum


@register(
    "ranked_list",
    paper="Ranked List Loss for Deep Metric Learning",
    year=2019,
    tuples="pairs",
    space={
        "alpha": Float(0.6, 1.8),
        "margin": Float(0.0, 1.0),
        "negative_temperature": Float(0.0, 20.0),
    },
)
class RankedList(EmbeddingLoss):
    """Keep positives within one distance and negatives beyond a larger one, the worst violations first.

    ``(1 - balance) sum_p w_p [d_ap - (alpha - margin)]+ + balance sum_n w_n [alpha - d_an]+`` over all
    samples as anchors, with the Euclidean distance d. The weights w of an anchor's positives, and of its
    negatives, are a softmax of temperature times violation over those that violate their bound. As in the
    paper and the authors' code, the weights have no gradient, so the gradient is not the slope of the value.
    pytorch-metric-learning's version agrees otherwise, but its weights have a gradient.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
        >>> RankedList()(x, torch.tensor([0, 0, 1]))  # d = 1.414 for the positives: 0.614 too far
        tensor(0.2047)
    """

    alpha: float = 1.2
    """Negatives should be beyond this distance; the authors' later "simpler" version has 1 + margin / 2."""
    margin: float = 0.4
    """Positives should be within alpha - margin."""
    negative_temperature: float = 10.0
    """Preference for the nearest negatives (T_n in the paper)."""
    positive_temperature: float = 0.0
    """Preference for the farthest positives (T_p in the paper)."""
    balance: float = 0.5
    """Weight of the negatives' part (lambda in the paper)."""
    reduction: Reduction = "mean"
    """Reduction over the anchors; "mean" is over all B."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
        anchors = vectors.new_tensor(float(len(select_batch_rows(labels, tuples))))

        def value_and_slope(distances: Tensor) -> tuple[Tensor, Tensor]:
            near = distances - (self.alpha - self.margin)
            far = distances.neg_().add_(self.alpha)
            pulls = _shares(near, positive, self.positive_temperature).mul_(1 - self.balance)
            pushes = _shares(far, negative, self.negative_temperature).mul_(self.balance)
            total = (pulls * near).sum() + (pushes * far).sum()
            found = TupleSum(total, anchors, anchors)
            slope = found._replace(total=pulls.sub_(pushes))
            return found.reduce(self.reduction), slope.reduce(self.reduction)

        return loss_of_distances(vectors, value_and_slope)


def _shares(violations: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Return the weights (B x B) of the violations above zero: a softmax over each row, or zeros."""
    violating = violations.clone().relu_().sign_().mul_(mask)
    return softmax_weights(violations * temperature, violating, plus_one=False)[1]
