"""rho-regularisation: now and then, push samples of one class apart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.geometry import relations
from levelfield.miners import Miner, Pairs, Triplets, Tuples, create, register, reseed
from levelfield.miners._draw import Drawing
from levelfield.seeds import seed_for
from levelfield.space import Float


def switch_triplets(triplets: Triplets, switched: Tensor) -> Triplets:
    """Make (a, a, p) of the triplets (a, p, n) that ``switched`` (T, bool) marks.

    The negative becomes the positive; the positive becomes the anchor itself, because (a, p, p) would pull as
    much as it pushes.

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
    """Put a random positive of the anchor in the place of some negatives.

    Args:
        pairs: With N negative pairs.
        positive: Which pairs of the batch are positive, bool B x B.
        switched: Which negative pairs to switch, bool (N,); those whose anchor has no positive stay.
        uniform: Random numbers in [0, 1), (N,), that choose the positives.
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
class RhoSwitch(Drawing):
    """Another miner's tuples, in which negatives are switched with positives at random.

    This counteracts the compression of the embedding (section 5.1 of the paper): with probability
    ``p_switch`` a tuple's negative is a sample of the anchor's own class, so that the loss pushes the two
    apart. A triplet (a, p, n) becomes (a, a, p): its attracting part vanishes, as in the paper's experiments.
    A negative pair (a, n) becomes (a, p) with a random positive p, if there is one; positive pairs stay. For
    a loss of triplets, wrap a miner that finds triplets.

    For the tuple losses contrastive, triplet, margin and SNR. The published values are 0.3 to 0.4 on
    CUB200-2011, 0.35 on CARS196 and 0.15 on Stanford Online Products, all with distance-weighted mining.

    Args:
        p_switch: The probability of a switch, for each tuple by itself.
        miner: The miner whose tuples are switched: a registered name, or any miner.
        generator: The random stream of the switches, or
        seed: the seed of a new one; the inner miner gets another.
        options: For the inner miner, if it is given by name.

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
                f"rho_switch: give {', '.join(options)} to the inner miner itself, or name that miner"
            )
        self.p_switch = p_switch
        if isinstance(miner, str):
            miner = create(miner, **options)
            _reseed_inner(miner, seed or 0)
        self.miner = miner

    def reseed(self, seed: int) -> None:
        """Start the random streams of the switches and of the inner miner anew."""
        super().reseed(seed)
        _reseed_inner(self.miner, seed)

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Tuples:
        """The inner miner's tuples of ``embeddings`` (B x D) with ``labels`` (B), some switched."""
        found = self.miner(embeddings, labels)
        if isinstance(found, Triplets):
            switched = self.uniform(len(found.anchor), device=labels.device) < self.p_switch
            return switch_triplets(found, switched)
        positive, _ = relations(labels)
        uniform = self.uniform(2, len(found.neg_anchor), device=labels.device)
        return switch_pairs(found, positive, uniform[0] < self.p_switch, uniform[1])


def _reseed_inner(miner: Miner, seed: int) -> None:
    reseed(miner, seed_for("rho_switch", "inner", seed))
