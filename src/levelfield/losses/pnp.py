"""PNP: penalize the negatives that rank before positives."""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from levelfield.core.geometry import loss_of_cosines, pair_masks
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import check_positive
from levelfield.losses._module import RankingLoss
from levelfield.losses._negatives import list_pairs_with_self, soft_step, sum_over_pairs
from levelfield.losses._reduction import Reduction

Variant: TypeAlias = Literal["O", "Iu", "Ib", "Ds", "Dq"]


@register(
    "pnp",
    paper="Rethinking the Optimization of Average Precision: Only Penalizing Negative Instances before "
    "Positive Ones is Enough",
    year=2022,
    space={"temperature": Float(1e-3, 0.1, log=True), "alpha": Float(0.5, 8.0, log=True)},
)
class PNP(RankingLoss):
    """Penalize the number of negatives that rank before each positive.

    With ``R = sum_n sig((s_an - s_ak) / temperature)`` for the logistic function sig and the cosine
    similarity s: the mean of f(R) over the positives k of an anchor and the anchor itself, as in the authors'
    code, then over the anchors that have a positive. Variant O: ``f = R``; Iu: ``(1 + R) log(1 + R)``; Ib:
    ``(b R - log(1 + b R)) / b^2``; Ds: ``log(1 + R)``; Dq: ``1 - 1 / (1 + R)^alpha``. Slopes increase with R
    in the I variants and decrease in the D variants. Equals pytorch-metric-learning's, except that that
    one counts anchors without positives.

    Example:
        >>> import torch
        >>> x, y = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]), torch.tensor([0, 0, 1])
        >>> PNP(variant="O", temperature=0.001)(x, y)  # one negative ranks before each positive
        tensor(0.5000)
    """

    variant: Variant = "Dq"
    """Function of the count; the paper finds the D variants best, the public code defaults to O."""
    temperature: float = 0.01
    """Temperature of the sigmoids; smaller is closer to true counts."""
    alpha: float = 4.0
    """Decay of the slope of Dq: 4 in the authors' command with the best scores. Other variants ignore it."""
    b: float = 2.0
    """Growth of the slope of Ib toward its bound; the other variants ignore it."""
    reduction: Reduction = "mean"
    """Reduction over the anchors."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("temperature", "alpha", "b"):
            check_positive(name, getattr(self, name))

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        positive, negative = pair_masks(labels, dtype=vectors.dtype)
        pairs, share, anchors = list_pairs_with_self(positive)
        weight = share / anchors if self.reduction == "mean" else share

        def penalty(part: slice, count: Tensor) -> tuple[Tensor, Tensor]:
            value, slope = self._penalty(count)
            return weight[part] * value, weight[part] * slope

        def value_and_slope(cosines: Tensor) -> tuple[Tensor, Tensor]:
            step = partial(soft_step, temperature=self.temperature)
            return sum_over_pairs(cosines, pairs, negative, step=step, loss=penalty)

        return loss_of_cosines(vectors, value_and_slope)

    def _penalty(self, count: Tensor) -> tuple[Tensor, Tensor]:
        """Return the function of the count, and its slope."""
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
