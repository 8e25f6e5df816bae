"""Recall@k surrogate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from levelfield.core.geometry import dot_products, l2_normalize, pair_masks
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._module import RankingLoss
from levelfield.losses._ranks import soft_ranks
from levelfield.losses._reduction import Reduction, reduce


@register(
    "recall_at_k",
    paper="Recall@k Surrogate Loss with Large Batches and Similarity Mixup",
    year=2022,
    space={"rank_temperature": Float(1e-3, 0.1, log=True), "recall_temperature": Float(0.1, 10.0, log=True)},
)
class RecallAtK(RankingLoss):
    """Recall within the first k neighbors, with soft ranks and a soft cutoff.

    ``1 - min(k, sum_p sig((k - r_p) / recall_temperature)) / min(k, |P|)``, averaged over k, over the anchors
    that have a positive; ``r_p = 1 + sum_{j != p} sig((s_aj - s_ap) / rank_temperature)`` is the soft rank of
    p by cosine similarity s, and ``sig`` the logistic function. As in the authors' code, the anchor itself is
    ranked too. It comes first, so the best positive has rank 2.

    Example:
        >>> x, y = torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1])
        >>> RecallAtK(k=[2])(x, y)  # the anchor is as close as the positive: rank 1.5
        tensor(0.3775)
    """

    k: Sequence[int] = (1, 2, 4, 8, 16)
    """Depths k."""
    rank_temperature: float = 0.01
    """Temperature of the comparisons (tau_2 in the paper)."""
    recall_temperature: float = 1.0
    """Temperature of the cutoff at k (tau_1 in the paper)."""
    reduction: Reduction = "mean"
    """Reduction over the anchors."""

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        similarity = dot_products(l2_normalize(vectors))
        positive, _ = pair_masks(labels, dtype=similarity.dtype)
        ranks = soft_ranks(similarity, positive, temperature=self.rank_temperature)
        own = similarity.flatten().gather(0, ranks.anchor * len(labels) + ranks.positive)
        itself = similarity.detach().diagonal()[ranks.anchor]  # the length of a unit vector has no slope
        rank = ranks.overall + torch.sigmoid((itself - own) / self.rank_temperature)
        depth = torch.tensor([min(k, len(labels)) for k in self.k], dtype=rank.dtype, device=rank.device)
        within = torch.sigmoid((depth - rank[:, None]) / self.recall_temperature)
        hits = rank.new_zeros(len(labels), len(depth)).index_add(0, ranks.anchor, within)
        number = positive.sum(1)
        most = torch.minimum(depth, number[:, None]).clamp(min=1)
        recall = (torch.minimum(hits, depth) / most).mean(1)
        return reduce(1 - recall, number.clamp(max=1), self.reduction)
