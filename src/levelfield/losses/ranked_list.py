"""Ranked list loss: all positives inside, all negatives outside, the worst ones first."""

from __future__ import annotations

from torch import Tensor

from levelfield.geometry import Tuples, loss_of_distances, of_batch, pair_masks
from levelfield.losses import register
from levelfield.losses._logsumexp import softmax_weights
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, Sum
from levelfield.space import Float


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
    """Keep all positives within one distance and all negatives beyond a larger one, the worst ones first.

    ``(1 - balance) sum_p w_p [d_ap - (alpha - margin)]+ + balance sum_n w_n [alpha - d_an]+`` over all
    samples as anchors, with the Euclidean distance d. The weights w of an anchor's positives, and of its
    negatives, are a softmax of temperature times violation over those that violate their bound. As in the
    paper and the authors' code they are constants to the gradient, which is therefore not the slope of the
    value; in pytorch-metric-learning's version, which otherwise agrees, the gradient passes them.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
        >>> RankedList()(x, torch.tensor([0, 0, 1]))  # d = 1.414 for the positives: 0.614 too far
        tensor(0.2047)
    """

    alpha: float = 1.2
    """Negatives belong beyond this distance; the authors' later "simpler" version has 1 + margin / 2."""
    margin: float = 0.4
    """Positives belong within alpha - margin."""
    negative_temperature: float = 10.0
    """How much the nearest negatives are preferred (T_n in the paper)."""
    positive_temperature: float = 0.0
    """How much the farthest positives are preferred (T_p in the paper)."""
    balance: float = 0.5
    """The weight of the negatives' part (lambda in the paper)."""
    reduction: Reduction = "mean"
    """How the losses of the anchors become one number; "mean" is over all B."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: Tuples | None) -> Tensor:
        """The formula above."""
        positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
        anchors = vectors.new_tensor(float(len(of_batch(labels, tuples))))

        def value_and_slope(distances: Tensor) -> tuple[Tensor, Tensor]:
            near = distances - (self.alpha - self.margin)
            far = distances.neg_().add_(self.alpha)
            pulls = _shares(near, positive, self.positive_temperature).mul_(1 - self.balance)
            pushes = _shares(far, negative, self.negative_temperature).mul_(self.balance)
            total = (pulls * near).sum() + (pushes * far).sum()
            found = Sum(total, anchors, anchors)
            slope = found._replace(total=pulls.sub_(pushes))
            return found.reduced(self.reduction), slope.reduced(self.reduction)

        return loss_of_distances(vectors, value_and_slope)


def _shares(violations: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """The weights (B x B) of the violations above zero, a softmax over each row; zero in rows without."""
    violating = violations.clone().relu_().sign_().mul_(mask)
    return softmax_weights(violations * temperature, violating, plus_one=False)[1]
