"""Multi-similarity loss."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import MinedTuples, loss_of_cosines, pair_masks, select_batch_rows
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._logsumexp import log_sum_exp_parts
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, TupleSum


@register(
    "multi_similarity",
    paper="Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning",
    year=2019,
    tuples="pairs",
    reported_by=("reality-check", "revisiting", "deep-dive", "landmarks"),
    space={
        "alpha": Float(0.01, 50.0, log=True),
        "beta": Float(1.0, 200.0, log=True),
        "base": Float(0.0, 1.0),
    },
)
class MultiSimilarity(EmbeddingLoss):
    """Weight each pair by its own similarity and by those of competing pairs.

    ``1/alpha log(1 + sum_p exp(-alpha (s_ap - base))) + 1/beta log(1 + sum_n exp(beta (s_an - base)))`` over
    all samples as anchors, with the cosine similarity s ("Revisiting Training Strategies", eq. 12, without
    the mining of eq. 11, which is the miner ``multi_similarity``). Equals pytorch-metric-learning's.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0], [1.0], [-1.0]])
        >>> MultiSimilarity(alpha=1.0, beta=1.0, base=0.0)(x, torch.tensor([0, 0, 1]))
        tensor(0.6015)
    """

    alpha: float = 2.0
    """Sharpness for positives."""
    beta: float = 50.0
    """Sharpness for negatives."""
    base: float = 0.5
    """Reference similarity of both terms (lambda in the paper)."""
    reduction: Reduction = "mean"
    """Reduction over the anchors; "mean" is over all B."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
        sharpness = (positive * -(self.alpha + self.beta)).add_(self.beta)
        anchors = vectors.new_tensor(float(len(select_batch_rows(labels, tuples))))

        def value_and_slope(cosines: Tensor) -> tuple[Tensor, Tensor]:
            both = log_sum_exp_parts(
                cosines.sub_(self.base).mul_(sharpness), positive, negative, plus_one=True
            )
            total = both.pull.sum() / self.alpha + both.push.sum() / self.beta
            slope = both.slope(1 / self.alpha, 1 / self.beta).mul_(sharpness)
            found = TupleSum(total, anchors, anchors)
            return found.reduce(self.reduction), found._replace(total=slope).reduce(self.reduction)

        return loss_of_cosines(vectors, value_and_slope)
