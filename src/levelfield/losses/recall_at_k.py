"""Recall@k surrogate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from levelfield.geometry import pair_masks, products, unit
from levelfield.losses import register
from levelfield.losses._module import RankingLoss
from levelfield.losses._ranks import soft_ranks
from levelfield.losses._reduction import Reduction, reduce
from levelfield.space import Float


@register(
    "recall_at_k",
    paper="Recall@k Surrogate Loss with Large Batches and Similarity Mixup",
    year=2022,
    space={"rank_temperature": Float(1e-3, 0.1, log=True), "recall_temperature": Float(0.1, 10.0, log=True)},
)
class RecallAtK(RankingLoss):
    """Recall within the first k neighbours, with soft ranks and a soft cut.

    One minus the share of an anchor's positives within its first k neighbours, made smooth.

    ``1 - 1/|P| sum_p sig((k - r_p) / recall_temperature)``, averaged over k, over the anchors that have a
    positive; ``r_p = 1 + sum_{j != a, p} sig((s_aj - s_ap) / rank_temperature)`` is the soft rank of p by
    cosine similarity s, and ``sig`` the logistic function.

    Example:
        >>> x, y = torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1])
        >>> RecallAtK(k=[1])(x, y)  # rank 1 is just inside
        tensor(0.5000)
    """

    k: Sequence[int] = (1, 2, 4, 8, 16)
    """The depths."""
    rank_temperature: float = 0.01
    """Of the comparisons (tau_2 in the paper)."""
    recall_temperature: float = 1.0
    """Of the cut at k (tau_1 in the paper)."""
    reduction: Reduction = "mean"
    """How the losses of the anchors become one number."""

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """The formula above."""
        similarity = products(unit(vectors))
        positive, _ = pair_masks(labels, dtype=similarity.dtype)
        ranks = soft_ranks(similarity, positive, temperature=self.rank_temperature)
        depth = torch.tensor(list(self.k), dtype=similarity.dtype, device=similarity.device)
        within = torch.sigmoid((depth - ranks.overall[:, None]) / self.recall_temperature).mean(1)
        number = positive.sum(1)
        recall = torch.zeros_like(similarity[:, 0]).index_add(0, ranks.anchor, within) / number.clamp(min=1)
        return reduce(1 - recall, number.clamp(max=1), self.reduction)
