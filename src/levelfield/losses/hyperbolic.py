"""Pairwise cross-entropy by hyperbolic distance, as in Hyp-ViT."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import softplus

from levelfield.geometry import Tuples, pair_masks
from levelfield.losses import register
from levelfield.losses._ball import distances_in_ball
from levelfield.losses._classification import check_positive
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.space import Float


@register(
    "hyperbolic",
    paper="Hyperbolic Vision Transformers: Combining Improvements in Metric Learning",
    year=2022,
    embedding="raw",
    tuples="pairs",
    space={
        "temperature": Float(0.01, 1.0, log=True),
        "curvature": Float(0.01, 1.0, log=True),
        "clip_radius": Float(1.0, 5.0),
    },
)
class Hyperbolic(EmbeddingLoss):
    """Softmax cross-entropy of each positive pair against its anchor's negatives, in a Poincaré ball.

    ``-log(exp(-d_ap / t) / (exp(-d_ap / t) + sum_n exp(-d_an / t)))`` over positive pairs, where d is the
    geodesic distance. An embedding longer than ``clip_radius`` is shortened to it; the exponential map at
    the origin then takes x to ``tanh(sqrt(c) |x|) x / (sqrt(c) |x|)`` in the ball of curvature -c, in which
    ``sinh(sqrt(c) d / 2) = sqrt(c) |y - z| / sqrt((1 - c |y|^2) (1 - c |z|^2))``.

    With two samples per class this is the authors' code but for a factor of two: that sums what is averaged
    here. With more, their code takes the negatives of a pair from the places of its two samples only, which
    depends on the order of the batch; here they are all of the anchor's. Their code also searches by
    hyperbolic distance, which this product does not do: evaluation is by cosine.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
        >>> Hyperbolic(temperature=1.0)(x, torch.tensor([0, 0, 1]))  # the distance is 4: log(1 + exp(-4))
        tensor(0.0181)
    """

    temperature: float = 0.2
    """Divides the distances (tau in the paper)."""
    curvature: float = 0.1
    """How much the space is curved (c in the paper)."""
    clip_radius: float = 2.3
    """Longer embeddings are shortened to this length (r in the paper)."""
    reduction: Reduction = "mean"
    """How the losses of the positive pairs become one number."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("temperature", "curvature", "clip_radius"):
            check_positive(name, getattr(self, name))

    def compute(self, vectors: Tensor, labels: Tensor, tuples: Tuples | None) -> Tensor:
        """The formula above."""
        distances = distances_in_ball(vectors, curvature=self.curvature, clip_radius=self.clip_radius)
        similarity = distances / -self.temperature
        positive, negative = pair_masks(labels, tuples, dtype=similarity.dtype)
        rivals = log_sum_exp(similarity, negative)
        return reduce(softplus(rivals[:, None] - similarity), positive, self.reduction)
