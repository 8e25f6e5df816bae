"""Smooth-AP: average precision with soft ranks."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from levelfield.losses import register
from levelfield.losses._distances import checked, products, unit
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._ranks import soft_ranks
from levelfield.losses._reduction import Reduction, reduce
from levelfield.miners._convert import pair_masks
from levelfield.space import Float


def smooth_ap(
    embeddings: Tensor, labels: Tensor, *, temperature: float = 0.01, reduction: Reduction = "mean"
) -> Tensor:
    """One minus the average precision of each anchor, with sigmoids in place of comparisons.

    ``1 - 1/|P| sum_p (1 + sum_{q in P} sig(s_aq - s_ap)) / (1 + sum_{k != a} sig(s_ak - s_ap))`` over the
    anchors that have a positive, where ``sig(x) = 1 / (1 + exp(-x / temperature))`` and s is the cosine
    similarity; the anchor itself is not ranked, nor p against itself.

    Args:
        embeddings: B x D.
        labels: B.
        temperature: Of the sigmoids; the smaller, the closer to the true ranks.
        reduction: How the losses of the anchors become one number.

    Returns:
        A scalar.

    Example:
        >>> smooth_ap(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.)
    """
    similarity = products(unit(checked(embeddings, labels)))
    positive, _ = pair_masks(labels, dtype=similarity.dtype)
    ranks = soft_ranks(similarity, positive, temperature=temperature)
    number = positive.sum(1)
    precision = torch.zeros_like(similarity[:, 0]).index_add(
        0, ranks.anchor, ranks.among_positives / ranks.overall
    )
    losses = 1 - precision / number.clamp(min=1)
    return reduce(losses, number.clamp(max=1), reduction)


@register(
    "smooth_ap",
    paper="Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval",
    year=2020,
    space={"temperature": Float(1e-3, 0.1, log=True)},
)
class SmoothAP(EmbeddingLoss):
    """Average precision with soft ranks."""

    takes_tuples = False

    def __init__(self, *, temperature: float = 0.01, reduction: Reduction = "mean") -> None:
        super().__init__(partial(smooth_ap, temperature=temperature, reduction=reduction))
