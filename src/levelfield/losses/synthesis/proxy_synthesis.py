"""Proxy Synthesis: synthetic classes from blended samples and blended proxies."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from levelfield.core.geometry import l2_normalize
from levelfield.core.options import Positive
from levelfield.core.seeds import random_derangement, sample_beta
from levelfield.losses.synthesis import LossFunction, LossInputs, Synthesis, register


@register(
    "proxy_synthesis",
    paper="Proxy Synthesis: Learning with Synthetic Classes for Deep Metric Learning",
    year=2021,
    needs="proxies",
    amount="ratio",
)
class ProxySynthesis(Synthesis):
    """Blend samples of two classes and their proxies into samples and proxies of new classes.

    ``w x + (1 - w) x'`` and ``w p + (1 - w) p'`` of unit vectors, with one w from Beta(alpha, alpha) per
    batch. The blends are appended to the embeddings and proxies. Partners are neighbors in a random circle.
    The authors use the order of the batch and require neighbors of two classes; here a sample whose partner
    is of its own class is left out.

    Example:
        >>> batch = LossInputs(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        >>> def shapes(made): return torch.tensor([len(made.embeddings), len(made.proxies), made.labels[-1]])
        >>> ProxySynthesis(ratio=1.0)(batch, shapes, generator=torch.Generator())
        tensor([4, 4, 3])
    """

    ratio: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Synthetic samples for each sample of the batch (mu in the paper)."""
    alpha: Positive = 0.4
    """Parameter of the Beta distribution; small values keep a blend close to one of the two."""

    def forward(self, batch: LossInputs, loss_fn: LossFunction, *, generator: torch.Generator) -> Tensor:
        """Return the loss of the samples and blends over the proxies and blended proxies."""
        assert batch.proxies is not None
        partner = random_derangement(len(batch.labels), generator=generator).to(batch.labels.device)
        share = sample_beta(self.alpha, self.alpha, generator=generator)
        samples, proxies = l2_normalize(batch.embeddings), l2_normalize(batch.proxies)
        differ = (batch.labels != batch.labels[partner]).nonzero().squeeze(1)
        chosen = differ[: int(self.ratio * len(batch.labels))]
        other = partner[chosen]
        first, second = proxies[batch.labels[chosen]], proxies[batch.labels[other]]
        new = torch.arange(len(chosen), device=batch.labels.device) + len(proxies)
        made = LossInputs(
            torch.cat([samples, l2_normalize(share * samples[chosen] + (1 - share) * samples[other])]),
            torch.cat([batch.labels, new]),
            torch.cat([proxies, l2_normalize(share * first + (1 - share) * second)]),
        )
        return loss_fn(made)
