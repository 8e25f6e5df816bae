"""Loss with random pauses, for tests in which runs end in another order each time."""

from __future__ import annotations

import random
import time

from torch import Tensor

import levelfield as lf
from levelfield.core.geometry import MinedTuples
from levelfield.losses.contrastive import Contrastive


@lf.losses.register("delayed", space={"neg_margin": lf.Float(0.0, 1.0)})
class Delayed(Contrastive):
    """Contrastive loss with pauses."""

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: MinedTuples | tuple[Tensor, ...] | None = None
    ) -> Tensor:
        chance = random.SystemRandom()
        if chance.random() < 0.02:
            time.sleep(chance.random())
        return super().forward(embeddings, labels, tuples)
