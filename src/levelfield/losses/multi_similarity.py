"""Multi-similarity loss."""

from __future__ import annotations

from torch import Tensor

from levelfield.geometry import Tuples, loss_of_cosines, of_batch, pair_masks
from levelfield.losses import register
from levelfield.losses._logsumexp import both_log_sum_exps
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, Sum
from levelfield.space import Float


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
    """Weigh each pair by its own similarity and by those of its rivals.

    ``1/alpha log(1 + sum_p exp(-alpha (s_ap - base))) + 1/beta log(1 + sum_n exp(beta (s_an - base)))`` over
    all samples as anchors, with the cosine similarity s ("Revisiting Training Strategies", eq. 12, without
    the mining of eq. 11, which is the miner ``multi_similarity``). Equals pytorch-metric-learning's.

    Example:
        >>> x = torch.tensor([[1.0], [1.0], [-1.0]])
        >>> MultiSimilarity(alpha=1.0, beta=1.0, base=0.0)(x, torch.tensor([0, 0, 1]))
        tensor(0.6015)
    """

    alpha: float = 2.0
    """Sharpness for positives."""
    beta: float = 50.0
    """Sharpness for negatives."""
    base: float = 0.5
    """The similarity around which both turn (lambda in the paper)."""
    reduction: Reduction = "mean"
    """How the losses of the anchors become one number; "mean" is over all B."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: Tuples | None) -> Tensor:
        """The formula above."""
        positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
        sharpness = (positive * -(self.alpha + self.beta)).add_(self.beta)
        anchors = vectors.new_tensor(float(len(of_batch(labels, tuples))))

        def value_and_slope(cosines: Tensor) -> tuple[Tensor, Tensor]:
            both = both_log_sum_exps(
                cosines.sub_(self.base).mul_(sharpness), positive, negative, plus_one=True
            )
            total = both.pull.sum() / self.alpha + both.push.sum() / self.beta
            slope = both.slope(1 / self.alpha, 1 / self.beta).mul_(sharpness)
            found = Sum(total, anchors, anchors)
            return found.reduced(self.reduction), found._replace(total=slope).reduced(self.reduction)

        return loss_of_cosines(vectors, value_and_slope)
