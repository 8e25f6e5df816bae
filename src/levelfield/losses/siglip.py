"""SigLIP: binary classification of every pair of the batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from levelfield.core.geometry import MinedTuples, dot_products, l2_normalize, pair_counts, select_batch_rows
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import check_positive
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, TupleSum


@register(
    "siglip",
    paper="Sigmoid Loss for Language Image Pre-Training",
    year=2023,
    tuples="pairs",
    own_lr=True,
    space={"scale": Float(1.0, 100.0, log=True), "bias": Float(-20.0, 0.0)},
)
class SigLIP(EmbeddingLoss):
    """Logistic regression on the cosine of each pair: same class or not.

    ``1/B sum_a sum_b log(1 + exp(-z_ab (scale s_ab + bias)))`` with the cosine similarity s, z = 1 for
    positive and -1 for negative pairs; scale and bias are learned. The paper pairs each image with its own
    text. Here, as in ``supcon``, the positives are the samples of the class, and a sample is not paired with
    itself. As in the paper, the logarithm of the scale is learned, relative to its initial value.

    Example:
        >>> x = torch.tensor([[1.0], [1.0], [-1.0]])
        >>> SigLIP(scale=1.0, bias=0.0)(x, torch.tensor([0, 0, 1]))  # every pair is correct by one
        tensor(0.6265, grad_fn=...)
    """

    scale: float = 10.0
    """Initial factor of the cosines (t in the paper)."""
    bias: float = -10.0
    """Initial bias; below zero because most pairs are negative."""
    learn: bool = True
    """True if scale and bias are learned; if not, the loss has no parameters."""
    reduction: Reduction = "mean"
    """Reduction over the anchors; "mean" is over all B."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("scale", self.scale)
        self.log_growth: Tensor
        self.offset: Tensor
        for name, start in (("log_growth", 0.0), ("offset", self.bias)):
            value = torch.tensor(float(start))
            if self.learn:
                self.register_parameter(name, nn.Parameter(value))
            else:
                self.register_buffer(name, value)

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        positive, negative = pair_counts(labels, tuples, dtype=vectors.dtype)
        counts = positive + negative
        wrong = (negative - positive).sign_()
        scale = self.scale * self.log_growth.to(vectors.dtype).exp()
        logits = dot_products(l2_normalize(vectors)) * scale + self.offset.to(vectors.dtype)
        total = (softplus(logits * wrong) * counts).sum()
        anchors = vectors.new_tensor(float(len(select_batch_rows(labels, tuples))))
        return TupleSum(total, anchors, anchors).reduce(self.reduction)
