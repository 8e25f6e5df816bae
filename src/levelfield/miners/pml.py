"""Miners of pytorch-metric-learning, as ``pml:NAME``. They need the extra ``peers``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from levelfield.core.registry import RegistryEntry, package_source
from levelfield.miners import MinedTuples, MinerCard, Triplets, registry
from levelfield.miners._randomized import RandomizedMiner
from levelfield.miners.pml_bridge import (
    collect_parameters,
    create_parts,
    find_class,
    from_pml,
    isolate_global_rng,
    make_factory,
)

REFUSED = {
    "EmbeddingsAlreadyPackagedAsTriplets": (
        "expects batches that are triplets already; use levelfield.samplers.GivenTriplets in your own loop"
    )
}


class PMLMiner(RandomizedMiner):
    """Miner of pytorch-metric-learning, with its own random generator.

    Args:
        miner: Callable from embeddings (B x D) and labels (B) to three or four index tensors.
        generator: Random generator; give this or ``seed``.
        seed: Seed of a new generator. Defaults to 0.
    """

    def __init__(
        self, miner: Any, *, generator: torch.Generator | None = None, seed: int | None = None
    ) -> None:
        super().__init__(generator=generator, seed=seed)
        self.miner = miner

    def __call__(self, embeddings: Tensor, labels: Tensor) -> MinedTuples:
        """Return the miner's tuples."""
        number = torch.randint(2**62, (), generator=self.generator, device=self.generator.device)
        vectors = embeddings.detach().to(torch.promote_types(embeddings.dtype, torch.float32))
        with (
            isolate_global_rng(int(number), embeddings.device),
            torch.autocast(vectors.device.type, enabled=False),
        ):
            return from_pml(self.miner(vectors, labels))


@registry.family("pml")
def resolve_pml_miner(name: str) -> RegistryEntry[MinerCard]:
    """Return the registry entry of the miner ``pml:name``."""
    found = find_class("miners", name, base="BaseMiner", refused=REFUSED)

    def make(
        *, generator: torch.Generator | None = None, seed: int | None = None, **options: Any
    ) -> PMLMiner:
        return PMLMiner(found(**create_parts(options)), generator=generator, seed=seed)

    probe = PMLMiner(found())(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    return RegistryEntry(
        make_factory(name, make, collect_parameters(found), {"generator": None, "seed": None}),
        MinerCard(
            name=f"pml:{name}",
            summary=f"{name} of pytorch-metric-learning.",
            finds="triplets" if isinstance(probe, Triplets) else "pairs",
        ),
        package_source("pytorch-metric-learning"),
    )
