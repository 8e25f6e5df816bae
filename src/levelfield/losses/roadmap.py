"""ROADMAP: an upper bound of the average-precision loss, with thresholds shared by all batches."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import loss_of_cosines, pair_masks
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import check_positive
from levelfield.losses._logsumexp import FAR
from levelfield.losses._module import RankingLoss
from levelfield.losses._negatives import list_pairs_with_self, rounding, soft_step, sum_over_pairs
from levelfield.losses._reduction import hinge_loss_and_gradient


@register(
    "roadmap",
    paper="Robust and Decomposable Average Precision for Image Retrieval",
    year=2021,
    space={
        "temperature": Float(1e-3, 0.1, log=True),
        "delta": Float(0.0, 0.2),
        "calibration": Float(0.0, 1.0),
        "pos_threshold": Float(0.5, 1.0),
        "neg_threshold": Float(0.0, 0.9),
    },
)
class Roadmap(RankingLoss):
    """Average precision with pessimistic ranks, and thresholds shared by all batches.

    ``(1 - calibration) SupAP + calibration L``. SupAP is the mean of ``1 - r+ / (r+ + r-)`` over the
    positives k of each anchor: r+ counts the positives at least as similar as k, without a gradient, r- sums
    ``H(s_an - s_ak)`` over the negatives, where H is a sigmoid below zero, a sigmoid plus a half up to
    ``delta``, and from there a straight line. L is the contrastive loss ``[pos_threshold - s]+`` of positive
    and ``[s - neg_threshold]+`` of negative pairs, each averaged over the pairs where it is not zero; s is
    the cosine similarity.

    Ranks, ties and the mean of L are those of the authors' code: the anchor is ranked among its positives,
    and ties count as before. In their configuration H jumps down by 0.05 at ``delta``; in the paper and here
    it does not. Their configuration adds both parts, which is twice the paper's sum.

    Example:
        >>> import torch
        >>> x, y = torch.tensor([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]), torch.tensor([0, 0, 1])
        >>> Roadmap()(x, y)  # correct ranks, but positives 0.3 below their threshold
        tensor(0.1500)
    """

    temperature: float = 0.01
    """Temperature of the sigmoids (tau in the paper)."""
    delta: float = 0.05
    """Differences above this count along a straight line."""
    steepness: float = 100.0
    """Slope of that line (rho in the paper)."""
    calibration: float = 0.5
    """Weight of the contrastive part, from 0 to 1 (lambda in the paper)."""
    pos_threshold: float = 0.9
    """Positives should be above this similarity (alpha in the paper)."""
    neg_threshold: float = 0.6
    """Negatives should be below this similarity (beta in the paper)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("temperature", self.temperature)

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        positive, negative = pair_masks(labels, dtype=vectors.dtype)
        pairs, share, anchors = list_pairs_with_self(positive)
        weight = share * (1 - self.calibration) / anchors

        def value_and_slope(cosines: Tensor) -> tuple[Tensor, Tensor]:
            own = cosines[pairs.anchor, pairs.positive]
            equal = own - rounding(cosines)
            ahead = (pairs.table(own, fill=-FAR)[pairs.anchor] >= equal[:, None]).sum(1)

            def precision_loss(part: slice, count: Tensor) -> tuple[Tensor, Tensor]:
                rank = ahead[part] + count
                return weight[part] * count / rank, weight[part] * ahead[part] / rank.square()

            value, slope = sum_over_pairs(cosines, pairs, negative, step=self._step, loss=precision_loss)
            thresholds = (positive, -1, self.pos_threshold), (negative, 1, -self.neg_threshold)
            apart, its_slope = hinge_loss_and_gradient(cosines, *thresholds, reduction="mean_nonzero")
            return value + self.calibration * apart, slope.add_(its_slope, alpha=self.calibration)

        return loss_of_cosines(vectors, value_and_slope)

    def _step(self, above: Tensor) -> tuple[Tensor, Tensor]:
        """Return H and its slope."""
        beyond = (above - self.delta).relu_()
        steep = beyond.sign()
        counts, slope = soft_step(above.clamp(max=self.delta), self.temperature)
        counts.add_(beyond, alpha=self.steepness).add_(above.sign_().relu_(), alpha=0.5)
        return counts, slope.lerp_(slope.new_tensor(self.steepness), steep)
