"""Recall@k surrogate."""

from __future__ import annotations

from collections.abc import Sequence
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


def recall_at_k(
    embeddings: Tensor,
    labels: Tensor,
    *,
    k: Sequence[int] = (1, 2, 4, 8, 16),
    rank_temperature: float = 0.01,
    recall_temperature: float = 1.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """One minus the share of an anchor's positives within its first k neighbours, made smooth.

    ``1 - 1/|P| sum_p sig((k - r_p) / recall_temperature)``, averaged over k, over the anchors that have a
    positive; ``r_p = 1 + sum_{j != a, p} sig((s_aj - s_ap) / rank_temperature)`` is the soft rank of p by
    cosine similarity s, and ``sig`` the logistic function.

    Args:
        embeddings: B x D.
        labels: B.
        k: The depths.
        rank_temperature: Of the comparisons (tau_2 in the paper).
        recall_temperature: Of the cut at k (tau_1 in the paper).
        reduction: How the losses of the anchors become one number.

    Returns:
        A scalar.

    Example:
        >>> x, y = torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1])
        >>> recall_at_k(x, y, k=[1])  # rank 1 is just inside
        tensor(0.5000)
    """
    similarity = products(unit(checked(embeddings, labels)))
    positive, _ = pair_masks(labels, dtype=similarity.dtype)
    ranks = soft_ranks(similarity, positive, temperature=rank_temperature)
    depth = torch.tensor(list(k), dtype=similarity.dtype, device=similarity.device)
    within = torch.sigmoid((depth - ranks.overall[:, None]) / recall_temperature).mean(1)
    number = positive.sum(1)
    recall = torch.zeros_like(similarity[:, 0]).index_add(0, ranks.anchor, within) / number.clamp(min=1)
    return reduce(1 - recall, number.clamp(max=1), reduction)


@register(
    "recall_at_k",
    paper="Recall@k Surrogate Loss with Large Batches and Similarity Mixup",
    year=2022,
    space={"rank_temperature": Float(1e-3, 0.1, log=True), "recall_temperature": Float(0.1, 10.0, log=True)},
)
class RecallAtK(EmbeddingLoss):
    """Recall within the first k neighbours, with soft ranks and a soft cut."""

    takes_tuples = False

    def __init__(
        self,
        *,
        k: Sequence[int] = (1, 2, 4, 8, 16),
        rank_temperature: float = 0.01,
        recall_temperature: float = 1.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            partial(
                recall_at_k,
                k=tuple(k),
                rank_temperature=rank_temperature,
                recall_temperature=recall_temperature,
                reduction=reduction,
            )
        )
