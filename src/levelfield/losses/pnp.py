"""PNP: penalise the negatives before the positives."""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from levelfield.geometry import loss_of_cosines, pair_masks
from levelfield.losses import register
from levelfield.losses._classification import check_positive
from levelfield.losses._module import RankingLoss
from levelfield.losses._negatives import mates, soft_step, sum_over_mates
from levelfield.losses._reduction import Reduction
from levelfield.space import Float

Variant: TypeAlias = Literal["O", "Iu", "Ib", "Ds", "Dq"]


@register(
    "pnp",
    paper="Rethinking the Optimization of Average Precision: Only Penalizing Negative Instances before "
    "Positive Ones is Enough",
    year=2022,
    space={"temperature": Float(1e-3, 0.1, log=True), "alpha": Float(0.5, 8.0, log=True)},
)
class PNP(RankingLoss):
    """Count the negatives before each positive, and nothing else.

    With ``R = sum_n sig((s_an - s_ak) / temperature)`` for the logistic function sig and the cosine
    similarity s, the mean of f(R) over the positives k of an anchor and the anchor itself, as in the authors'
    code, over the anchors that have a positive. Variant O: ``f = R``; Iu: ``(1 + R) log(1 + R)``; Ib:
    ``(b R - log(1 + b R)) / b^2``; Ds: ``log(1 + R)``; Dq: ``1 - 1 / (1 + R)^alpha``. Slopes increase with R
    in the I variants and decrease in the D variants. Equals pytorch-metric-learning's, but for anchors
    without positives, which that one counts.

    Example:
        >>> import torch
        >>> x, y = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]), torch.tensor([0, 0, 1])
        >>> PNP(variant="O", temperature=0.001)(x, y)  # one negative before each positive
        tensor(0.5000)
    """

    variant: Variant = "Dq"
    """The function of the count; the paper finds the D variants best, the public code starts with O."""
    temperature: float = 0.01
    """Of the sigmoids; the smaller, the closer to true counts."""
    alpha: float = 1.0
    """How fast the slope of Dq decreases; the other variants ignore it."""
    b: float = 2.0
    """How fast the slope of Ib grows towards its bound; the other variants ignore it."""
    reduction: Reduction = "mean"
    """How the losses of the anchors become one number."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("temperature", "alpha", "b"):
            check_positive(name, getattr(self, name))

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """The formula above."""
        positive, negative = pair_masks(labels, dtype=vectors.dtype)
        pairs, share, anchors = mates(positive)
        weight = share / anchors if self.reduction == "mean" else share

        def penalty(part: slice, count: Tensor) -> tuple[Tensor, Tensor]:
            value, slope = self._penalty(count)
            return weight[part] * value, weight[part] * slope

        def value_and_slope(cosines: Tensor) -> tuple[Tensor, Tensor]:
            step = partial(soft_step, temperature=self.temperature)
            return sum_over_mates(cosines, pairs, negative, step=step, loss=penalty)

        return loss_of_cosines(vectors, value_and_slope)

    def _penalty(self, count: Tensor) -> tuple[Tensor, Tensor]:
        """The function of the count, and its slope."""
        match self.variant:
            case "O":
                return count, torch.ones_like(count)
            case "Iu":
                logarithm = count.log1p()
                return (1 + count) * logarithm, 1 + logarithm
            case "Ib":
                grown = self.b * count
                return (grown - grown.log1p()) / self.b**2, count / (1 + grown)
            case "Ds":
                return count.log1p(), 1 / (1 + count)
            case "Dq":
                left = (1 + count) ** -self.alpha
                return 1 - left, self.alpha * left / (1 + count)
