"""Proxy Synthesis: classes between classes, with samples between samples."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from levelfield.geometry import unit
from levelfield.losses.synthesis import LossOf, Samples, Synthesis, register
from levelfield.options import Positive
from levelfield.seeds import beta, circle


@register(
    "proxy_synthesis",
    paper="Proxy Synthesis: Learning with Synthetic Classes for Deep Metric Learning",
    year=2021,
    needs="proxies",
    amount="ratio",
)
class ProxySynthesis(Synthesis):
    """Blend samples of two classes, blend their proxies alike, and call it a sample of a new class.

    ``w x + (1 - w) x'`` and ``w p + (1 - w) p'`` of unit vectors, with one w from Beta(alpha, alpha) for the
    batch; embeddings and proxies are the loss's as they are, with the blends behind. Partners follow each
    other in a random circle, where the authors take the order of the batch and ask that neighbours be of
    two classes; a sample whose partner is of its own class is left out here.

    Example:
        >>> batch = Samples(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        >>> def shapes(made): return torch.tensor([len(made.embeddings), len(made.proxies), made.labels[-1]])
        >>> ProxySynthesis(ratio=1.0)(batch, shapes, generator=torch.Generator())
        tensor([4, 4, 3])
    """

    ratio: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Synthetic samples for each sample of the batch (mu in the paper)."""
    alpha: Positive = 0.4
    """Of the Beta distribution: small ones keep a blend near one of the two."""

    def forward(self, batch: Samples, loss_of: LossOf, *, generator: torch.Generator) -> Tensor:
        """The loss of the samples and the blends among all proxies and the blended ones."""
        assert batch.proxies is not None
        partner = circle(len(batch.labels), generator=generator).to(batch.labels.device)
        share = beta(self.alpha, self.alpha, generator=generator)
        samples, proxies = unit(batch.embeddings), unit(batch.proxies)
        differ = (batch.labels != batch.labels[partner]).nonzero().squeeze(1)
        chosen = differ[: int(self.ratio * len(batch.labels))]
        other = partner[chosen]
        first, second = proxies[batch.labels[chosen]], proxies[batch.labels[other]]
        new = torch.arange(len(chosen), device=batch.labels.device) + len(proxies)
        made = Samples(
            torch.cat([samples, unit(share * samples[chosen] + (1 - share) * samples[other])]),
            torch.cat([batch.labels, new]),
            torch.cat([proxies, unit(share * first + (1 - share) * second)]),
        )
        return loss_of(made)
