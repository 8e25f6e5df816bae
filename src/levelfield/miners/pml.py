"""Any miner of pytorch-metric-learning, as ``pml:NAME``; needs the extra ``peers``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from levelfield.miners import MinerCard, Triplets, Tuples, registry
from levelfield.miners._draw import Drawing
from levelfield.miners.pml_bridge import (
    factory,
    find_class,
    from_pml,
    own_stream,
    parameters_of,
    with_parts,
)
from levelfield.registry import Entry, package_source

REFUSED = {"EmbeddingsAlreadyPackagedAsTriplets": "expects batches that are triplets already"}


class PMLMiner(Drawing):
    """A miner of pytorch-metric-learning, with a random stream of its own.

    Args:
        miner: Called with embeddings (B x D) and labels (B), gives three or four index tensors.
        generator: The random stream, or
        seed: the seed of a new one.
    """

    def __init__(
        self, miner: Any, *, generator: torch.Generator | None = None, seed: int | None = None
    ) -> None:
        super().__init__(generator=generator, seed=seed)
        self.miner = miner

    def __call__(self, embeddings: Tensor, labels: Tensor) -> Tuples:
        """The miner's choice, as our tuples."""
        number = torch.randint(2**62, (), generator=self.generator, device=self.generator.device)
        vectors = embeddings.detach().to(torch.promote_types(embeddings.dtype, torch.float32))
        with own_stream(int(number), embeddings.device), torch.autocast(vectors.device.type, enabled=False):
            return from_pml(self.miner(vectors, labels))


@registry.family("pml")
def resolve(name: str) -> Entry[MinerCard]:
    """The entry of the miner ``pml:name``."""
    found = find_class("miners", name, base="BaseMiner", refused=REFUSED)

    def make(
        *, generator: torch.Generator | None = None, seed: int | None = None, **options: Any
    ) -> PMLMiner:
        return PMLMiner(found(**with_parts(options)), generator=generator, seed=seed)

    probe = PMLMiner(found())(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    return Entry(
        factory(name, make, parameters_of(found), {"generator": None, "seed": None}),
        MinerCard(
            name=f"pml:{name}",
            summary=f"{name} of pytorch-metric-learning.",
            finds="triplets" if isinstance(probe, Triplets) else "pairs",
        ),
        package_source("pytorch-metric-learning"),
    )
