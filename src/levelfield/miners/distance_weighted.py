"""Distance-weighted sampling."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.geometry import bool_pair_masks, euclidean, list_positives
from levelfield.core.space import Float
from levelfield.miners import Triplets, register
from levelfield.miners._prepare import prepare_embeddings
from levelfield.miners._randomized import RandomizedMiner, sample_columns


def log_density(distance: Tensor, dimensions: int) -> Tensor:
    """Return log q(d) up to a constant: the density of the distance of two random points on the unit sphere.

    Args:
        distance: Distances in (0, 2), of any shape.
        dimensions: Embedding size, D.

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
class DistanceWeighted(RandomizedMiner):
    """For every positive pair, one negative, drawn so that all distances are equally likely.

    The probability of a negative is proportional to 1 / q(d), with the density q of the distances between
    random points on the sphere (equations 23 and 24 of "Revisiting Training Strategies and Generalization
    Performance in Deep Metric Learning"; equation 23 with d^2 instead of the printed d). Embeddings are
    L2-normalized first.

    Distances below ``cutoff`` are set to ``cutoff``, so that near-duplicates do not get all the weight. Both
    public implementations bound the distance like this; equation 24 bounds the weight. Negatives at
    ``limit`` or farther are never drawn. Pairs whose anchor has no negative within the limit are skipped.
    Weights are scaled per row, because one scale for the whole batch would underflow for anchors with
    distant negatives in high dimensions.

    Args:
        cutoff: Smallest distance, the paper's lambda.
        limit: Negatives at this distance or farther are never drawn, because they have no loss.
        generator: Random generator; give this or ``seed``.
        seed: Seed of a new generator. Defaults to 0.

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
        """Return at most one triplet per positive pair of ``embeddings`` (B x D) with ``labels`` (B)."""
        points = prepare_embeddings(embeddings, labels)
        positive, negative = bool_pair_masks(labels)
        pairs = list_positives(positive)
        weights = self.weights(points, negative)
        uniform = self.uniform(len(labels), pairs.slots, device=weights.device)
        drawn = sample_columns(weights, uniform)[pairs.anchor, pairs.slot]
        keep = weights.any(dim=1)[pairs.anchor]
        return Triplets(pairs.anchor[keep], pairs.positive[keep], drawn[keep])

    def weights(self, points: Tensor, negative: Tensor) -> Tensor:
        """Return the relative probability of each sample as an anchor's negative, B x B; row maxima are 1.

        Args:
            points: Embeddings of unit length, B x D.
            negative: Mask of negative pairs, bool B x B.
        """
        distance = euclidean(points)
        allowed = negative & (distance < self.limit)
        # Distance 2 gives log(0); the limit already excludes it unless it is 2 or more.
        inside = distance.clamp(min=self.cutoff, max=min(self.limit, 1.9999))
        score = (-log_density(inside, points.shape[1])).masked_fill_(~allowed, -torch.inf)
        highest = score.amax(dim=1, keepdim=True)
        return (score - highest.nan_to_num(neginf=0.0)).exp_()
