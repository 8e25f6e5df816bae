"""Pairwise cross-entropy by hyperbolic distance, as in Hyp-ViT."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import softplus

from levelfield.core.geometry import MinedTuples, pair_masks
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import check_positive
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._poincare import poincare_distances
from levelfield.losses._reduction import Reduction, reduce


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
    geodesic distance. An embedding longer than ``clip_radius`` is shortened to it. The exponential map at the
    origin maps x to ``tanh(sqrt(c) |x|) x / (sqrt(c) |x|)`` in the ball of curvature -c. There,
    ``sinh(sqrt(c) d / 2) = sqrt(c) |y - z| / sqrt((1 - c |y|^2) (1 - c |z|^2))``.

    With two samples per class this equals the authors' code up to a factor of two: they sum where this
    averages. With more samples, their negatives of a pair depend on the order of the batch; here they are all
    negatives of the anchor. Their code also searches by hyperbolic distance; levelfield evaluates by cosine.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
        >>> Hyperbolic(temperature=1.0)(x, torch.tensor([0, 0, 1]))  # the distance is 4: log(1 + exp(-4))
        tensor(0.0181)
    """

    temperature: float = 0.2
    """Divides the distances (tau in the paper)."""
    curvature: float = 0.1
    """Curvature of the space (c in the paper)."""
    clip_radius: float = 2.3
    """Longer embeddings are shortened to this length (r in the paper)."""
    reduction: Reduction = "mean"
    """Reduction over the positive pairs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("temperature", "curvature", "clip_radius"):
            check_positive(name, getattr(self, name))

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        distances = poincare_distances(vectors, curvature=self.curvature, clip_radius=self.clip_radius)
        similarity = distances / -self.temperature
        positive, negative = pair_masks(labels, tuples, dtype=similarity.dtype)
        rivals = log_sum_exp(similarity, negative)
        return reduce(softplus(rivals[:, None] - similarity), positive, self.reduction)
