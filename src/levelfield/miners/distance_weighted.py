"""Distance-weighted sampling."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.geometry import euclidean, list_positives, relations
from levelfield.miners import Triplets, register
from levelfield.miners._draw import Drawing, draw
from levelfield.miners._points import checked_points
from levelfield.space import Float


def log_density(distance: Tensor, dimensions: int) -> Tensor:
    """How often two random points on the unit sphere are at distance d: log q(d) up to a constant.

    Args:
        distance: Distances in (0, 2), any shape.
        dimensions: D, of the space around the sphere.

    Example:
        >>> log_density(torch.tensor([1.0, 1.4]), 128).argmax().item()  # random points are far apart
        1
    """
    return (dimensions - 2) * distance.log() + (dimensions - 3) / 2 * torch.log1p(-0.25 * distance * distance)


@register(
    "distance_weighted",
    paper="Sampling Matters in Deep Embedding Learning",
    year=2017,
    space={"cutoff": Float(0.1, 1.0), "limit": Float(1.0, 1.99)},
)
class DistanceWeighted(Drawing):
    """For every positive pair a negative, drawn so that all distances come equally often.

    The chance of a negative is the inverse of the density q of distances between random points on the
    sphere (equations 23 and 24 of "Revisiting Training Strategies and Generalization Performance in Deep
    Metric Learning", the former with d^2 where the print has d). Embeddings are L2-normalised first.

    Two bounds: distances below ``cutoff`` count as ``cutoff``, so that near-duplicates do not take all the
    weight (both public implementations bound the distance, where equation 24 bounds the weight); negatives at
    ``limit`` or farther are never drawn. A pair whose anchor has no negative within the limit gives no
    triplet. Weights are scaled row by row; with one scale for the whole batch, anchors whose negatives are
    all far would vanish by underflow in high dimensions.

    Args:
        cutoff: The paper's lambda.
        limit: Farther negatives would have no loss.
        generator: The random stream, or
        seed: the seed of a new one.

    Example:
        >>> circle = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.6, 0.8], [-1.0, 0.0]])
        >>> triplets = DistanceWeighted()(circle, torch.tensor([0, 0, 1, 2]))
        >>> triplets.anchor.tolist(), triplets.negative.tolist()
        ([0, 1], [2, 2])
    """

    def __init__(
        self,
        *,
        cutoff: float = 0.5,
        limit: float = 1.4,
        generator: torch.Generator | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(generator=generator, seed=seed)
        if not 0 < cutoff < limit:
            raise UsageError(
                f"distance_weighted: cutoff must be above 0 and below limit, got cutoff {cutoff} "
                f"and limit {limit}"
            )
        self.cutoff = cutoff
        self.limit = limit

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        """Triplets of ``embeddings`` (B x D) with ``labels`` (B), one per positive pair at most."""
        points = checked_points(embeddings, labels)
        positive, negative = relations(labels)
        pairs = list_positives(positive)
        weights = self.weights(points, negative)
        uniform = self.uniform(len(labels), pairs.slots, device=weights.device)
        drawn = draw(weights, uniform)[pairs.anchor, pairs.slot]
        keep = weights.any(dim=1)[pairs.anchor]
        return Triplets(pairs.anchor[keep], pairs.positive[keep], drawn[keep])

    def weights(self, points: Tensor, negative: Tensor) -> Tensor:
        """Relative chances (B x B) of each sample to become an anchor's negative; the row's largest is 1.

        Args:
            points: B x D, of unit length.
            negative: Which pairs are negative, bool B x B.
        """
        distance = euclidean(points)
        allowed = negative & (distance < self.limit)
        # Antipodes would be at log(0); the limit has excluded them already unless it is 2 or more.
        inside = distance.clamp(min=self.cutoff, max=min(self.limit, 1.9999))
        score = (-log_density(inside, points.shape[1])).masked_fill_(~allowed, -torch.inf)
        highest = score.amax(dim=1, keepdim=True)
        return (score - highest.nan_to_num(neginf=0.0)).exp_()
