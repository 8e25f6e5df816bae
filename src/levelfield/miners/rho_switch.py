"""rho-regularization: randomly push samples of one class apart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.geometry import bool_pair_masks
from levelfield.core.seeds import seed_for
from levelfield.core.space import Float
from levelfield.miners import MinedTuples, Miner, Pairs, Triplets, create, register, reseed
from levelfield.miners._randomized import RandomizedMiner


def switch_triplets(triplets: Triplets, switched: Tensor) -> Triplets:
    """Replace triplets (a, p, n) by (a, a, p) where ``switched`` (T, bool) is True.

    The positive becomes the negative. The anchor becomes its own positive, because (a, p, p) would attract
    as much as it repels.

    Example:
        >>> one = Triplets(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
        >>> switched = switch_triplets(one, torch.tensor([True]))
        >>> switched.anchor.item(), switched.positive.item(), switched.negative.item()
        (0, 0, 1)
    """
    return Triplets(
        triplets.anchor,
        torch.where(switched, triplets.anchor, triplets.positive),
        torch.where(switched, triplets.positive, triplets.negative),
    )


def switch_pairs(pairs: Pairs, positive: Tensor, switched: Tensor, uniform: Tensor) -> Pairs:
    """Replace some negatives by a random positive of the anchor.

    Args:
        pairs: Pairs, N of them negative.
        positive: Mask of positive pairs of the batch, bool B x B.
        switched: Mask of negative pairs to switch, bool (N,). Pairs whose anchor has no positive are not
            switched.
        uniform: Random numbers in [0, 1) that choose the positives, (N,).
    """
    _, other = positive.nonzero(as_tuple=True)
    counts = positive.sum(dim=1)
    first = counts.cumsum(0) - counts
    place = (switched & (counts[pairs.neg_anchor] > 0)).nonzero().squeeze(1)
    anchor = pairs.neg_anchor[place]
    chosen = first[anchor] + (uniform[place] * counts[anchor]).long().clamp_(max=counts[anchor] - 1)
    negative = pairs.negative.index_copy(0, place, other[chosen])
    return Pairs(pairs.pos_anchor, pairs.positive, pairs.neg_anchor, negative)


@register(
    "rho_switch",
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
    space={"p_switch": Float(0.0, 0.5)},
)
class RhoSwitch(RandomizedMiner):
    """Tuples of another miner, with some negatives randomly replaced by positives.

    This reduces the compression of the embedding (section 5.1 of the paper). With probability ``p_switch``
    the negative of a tuple is a sample of the anchor's class, so that the loss pushes the two apart. A
    triplet (a, p, n) becomes (a, a, p), without an attracting part, as in the paper's experiments. A
    negative pair (a, n) becomes (a, p) with a random positive p, if there is one; positive pairs do not
    change. For a triplet loss, wrap a miner that finds triplets.

    It is defined for the tuple losses contrastive, triplet, margin and SNR. The published values are 0.3 to
    0.4 on CUB200-2011, 0.35 on CARS196 and 0.15 on Stanford Online Products, all with distance-weighted
    mining.

    Args:
        p_switch: Probability that a tuple is switched.
        miner: Inner miner: a registered name, or a miner.
        generator: Random generator of the switches; give this or ``seed``.
        seed: Seed of a new generator. Defaults to 0. The inner miner has a different seed.
        options: Options of the inner miner, if it is given by name.

    Example:
        >>> miner = RhoSwitch(p_switch=1.0, miner="hard")
        >>> triplets = miner(torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0, 0, 1]))
        >>> triplets.anchor.tolist(), triplets.positive.tolist(), triplets.negative.tolist()
        ([0, 1], [0, 1], [1, 0])
    """

    def __init__(
        self,
        *,
        p_switch: float = 0.35,
        miner: str | Miner = "distance_weighted",
        generator: torch.Generator | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(generator=generator, seed=seed)
        if not 0 <= p_switch <= 1:
            raise UsageError(f"rho_switch: p_switch must be between 0 and 1, got {p_switch}")
        if not isinstance(miner, str) and options:
            raise UsageError(
                f"rho_switch: options {', '.join(options)} need a miner given by name; "
                "set them on the miner object"
            )
        self.p_switch = p_switch
        if isinstance(miner, str):
            miner = create(miner, **options)
            _reseed_inner(miner, seed or 0)
        self.miner = miner

    def reseed(self, seed: int) -> None:
        """Reseed the random generators of the switches and of the inner miner."""
        super().reseed(seed)
        _reseed_inner(self.miner, seed)

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> MinedTuples:
        """Return the inner miner's tuples of ``embeddings`` (B x D) with ``labels`` (B), some switched."""
        found = self.miner(embeddings, labels)
        if isinstance(found, Triplets):
            switched = self.uniform(len(found.anchor), device=labels.device) < self.p_switch
            return switch_triplets(found, switched)
        positive, _ = bool_pair_masks(labels)
        uniform = self.uniform(2, len(found.neg_anchor), device=labels.device)
        return switch_pairs(found, positive, uniform[0] < self.p_switch, uniform[1])


def _reseed_inner(miner: Miner, seed: int) -> None:
    reseed(miner, seed_for("rho_switch", "inner", seed))
