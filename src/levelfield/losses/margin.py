"""Margin loss with a learnable boundary."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from levelfield.core.errors import UsageError
from levelfield.core.geometry import MinedTuples, Pairs, euclidean, l2_normalize, pair_counts
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import check_labels
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import HingeReduction, TupleSum, hinge_sum, reduce


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
class Margin(EmbeddingLoss):
    """Keep positives inside and negatives outside a learnable boundary around the anchor.

    ``[d_ap - beta + margin]+ + [beta - d_an + margin]+`` over triplets, with the Euclidean distance d. The
    sum is divided by the number of terms above zero (Wu et al.; "Revisiting Training Strategies", eq. 10).
    The two terms of a triplet are independent. So a pair's term is computed once and counted as often as the
    pair occurs in triplets. Equals pytorch-metric-learning's.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
        >>> Margin(beta=1.2)(x, torch.tensor([0, 0, 1]))  # two positives and one negative
        tensor(0.4142, grad_fn=...)
        >>> [tuple(p.shape) for p in Margin(per_class=True, num_classes=5).parameters()]
        [(5,)]
    """

    margin: float = 0.2
    """Half the width of the gap."""
    beta: float = 1.2
    """Initial boundary."""
    learn_beta: bool = True
    """True if the boundary is learned; if not, the loss has no parameters."""
    per_class: bool = False
    """One boundary per class of the anchor instead of one for all; needs ``num_classes``."""
    num_classes: int | None = None
    """Number of classes; ignored without ``per_class``."""
    nu: float = 0.0
    """Weight of the mean boundary, added to the loss."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    reduction: HingeReduction = "mean_nonzero"
    """Reduction over the pairs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        start = torch.tensor(float(self.beta))
        if self.per_class:
            if not self.num_classes:
                raise UsageError(
                    f"margin with per_class needs num_classes, got {self.num_classes}; "
                    "give the number of classes"
                )
            start = start.repeat(self.num_classes)
        self.boundary: Tensor
        if self.learn_beta:
            self.boundary = nn.Parameter(start)
        else:
            self.register_buffer("boundary", start)

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        if self.per_class and not torch.compiler.is_compiling():
            check_labels(labels, len(self.boundary), name="margin with per_class")
        distances = euclidean(l2_normalize(vectors) if self.normalize else vectors)
        beta = self.boundary.to(distances.dtype)
        boundary = beta[labels] if self.per_class else beta.expand(len(labels))
        positive, negative = pair_counts(labels, tuples, dtype=distances.dtype)
        if tuples is None or isinstance(tuples, Pairs):
            positive, negative = (
                positive * negative.sum(1, keepdim=True),
                negative * positive.sum(1, keepdim=True),
            )
        outside = distances - boundary[:, None]
        pull = hinge_sum(outside, positive, slope=1, offset=self.margin)
        push = hinge_sum(outside, negative, slope=-1, offset=self.margin)
        loss = TupleSum(*(one + other for one, other in zip(pull, push, strict=True))).reduce(self.reduction)
        return loss + self.nu * reduce(boundary, positive.sum(1), "mean")
