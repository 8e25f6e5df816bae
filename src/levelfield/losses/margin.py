"""Margin loss with a learnable boundary."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from levelfield.errors import UsageError
from levelfield.losses import register
from levelfield.losses._classification import check_labels
from levelfield.losses._distances import checked, euclidean, unit
from levelfield.losses._reduction import Reduction, Sum, hinge_sum, reduce
from levelfield.miners import Pairs, Tuples
from levelfield.miners._convert import pair_counts
from levelfield.space import Float


def margin_loss(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    beta: Tensor,
    margin: float = 0.2,
    nu: float = 0.0,
    normalize: bool = True,
    reduction: Reduction = "mean_nonzero",
) -> Tensor:
    """Positives inside, negatives outside a boundary ``beta`` around the anchor, by ``margin``.

    ``[d_ap - beta + margin]+ + [beta - d_an + margin]+`` over triplets, with the Euclidean distance d. The
    sum is divided by the number of terms above zero (Wu et al.; "Revisiting Training Strategies", eq. 10).
    A triplet's two terms do not meet, so a pair's term is computed once and counted as often as the pair
    occurs in triplets. Equals pytorch-metric-learning's.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice; all triplets of the batch if None. Pairs stand for every triplet whose
            positive and negative pair share the anchor.
        beta: The boundary: a scalar, or one for each anchor (B).
        margin: Half the width of the gap (alpha in the paper).
        nu: Weight of the mean boundary of the anchors, added to the loss.
        normalize: Scale the embeddings to unit length first.
        reduction: How the losses of the pairs become one number.

    Returns:
        A scalar.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
        >>> margin_loss(x, torch.tensor([0, 0, 1]), beta=torch.tensor(1.2))  # two positives and one negative
        tensor(0.4142)
    """
    vectors = checked(embeddings, labels)
    distances = euclidean(unit(vectors) if normalize else vectors)
    boundary = beta.to(distances.dtype).expand(len(labels))
    positive, negative = pair_counts(labels, tuples, dtype=distances.dtype)
    if tuples is None or isinstance(tuples, Pairs):
        positive, negative = (
            positive * negative.sum(1, keepdim=True),
            negative * positive.sum(1, keepdim=True),
        )
    outside = distances - boundary[:, None]
    pull = hinge_sum(outside, positive, slope=1, offset=margin)
    push = hinge_sum(outside, negative, slope=-1, offset=margin)
    loss = Sum(*(one + other for one, other in zip(pull, push, strict=True))).reduced(reduction)
    return loss + nu * reduce(boundary, positive.sum(1), "mean")


@register(
    "margin",
    paper="Sampling Matters in Deep Embedding Learning",
    year=2017,
    tuples="triplets",
    own_lr=True,
    loss_lr=5e-4,
    reported_by=("reality-check", "revisiting", "deep-dive", "landmarks"),
    space={"margin": Float(-0.1, 1.0), "beta": Float(0.0, 2.0)},
)
class Margin(nn.Module):
    """Keep positives inside and negatives outside a learnable boundary around the anchor.

    Args:
        margin: Half the width of the gap.
        beta: Where the boundary starts.
        learn_beta: Whether it moves; if not, the loss has no parameters.
        per_class: One boundary for each class of the anchor, not one for all; wants ``num_classes``.
        num_classes: The number of classes; ignored without ``per_class``.
        nu: Weight of the mean boundary, added to the loss.
        normalize: Scale the embeddings to unit length first.
        reduction: How the losses of the pairs become one number.

    Example:
        >>> [tuple(p.shape) for p in Margin(per_class=True, num_classes=5).parameters()]
        [(5,)]
    """

    beta: Tensor

    def __init__(
        self,
        *,
        margin: float = 0.2,
        beta: float = 1.2,
        learn_beta: bool = True,
        per_class: bool = False,
        num_classes: int | None = None,
        nu: float = 0.0,
        normalize: bool = True,
        reduction: Reduction = "mean_nonzero",
    ) -> None:
        super().__init__()
        if per_class and not num_classes:
            raise UsageError(
                f"margin with per_class needs num_classes, got {num_classes}; give the number of classes"
            )
        start = (
            torch.full((num_classes,), float(beta))
            if per_class and num_classes
            else torch.tensor(float(beta))
        )
        if learn_beta:
            self.beta = nn.Parameter(start)
        else:
            self.register_buffer("beta", start)
        self.margin = margin
        self.nu = nu
        self.normalize = normalize
        self.reduction: Reduction = reduction

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None) -> Tensor:
        """See :func:`margin_loss`."""
        if self.beta.ndim and not torch.compiler.is_compiling():
            check_labels(labels, len(self.beta), name="margin with per_class")
        return margin_loss(
            embeddings,
            labels,
            tuples,
            beta=self.beta if self.beta.ndim == 0 else self.beta[labels],
            margin=self.margin,
            nu=self.nu,
            normalize=self.normalize,
            reduction=self.reduction,
        )

    def extra_repr(self) -> str:
        """The options, for print."""
        return f"margin={self.margin}, nu={self.nu}, normalize={self.normalize}, reduction={self.reduction!r}"
