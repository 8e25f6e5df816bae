"""Non-isotropy: samples lie around their proxy as a flow can learn, not alike in all directions."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.geometry import unit
from levelfield.losses._module import Loss
from levelfield.losses.regularisers import register
from levelfield.losses.regularisers._flow import Flow
from levelfield.options import Size
from levelfield.seeds import torch_generator


@register(
    "non_isotropy",
    paper="Non-isotropy Regularization for Proxy-based Deep Metric Learning",
    year=2022,
    sees=("labels", "proxies"),
    lr=5e-4,
)
class NonIsotropy(Loss):
    """How unlikely a flow finds the samples, given their proxies.

    A normalising flow f, conditioned on the unit proxy p of a sample's class, turns the unit embedding x into
    ``z = f(x | p)``, which should be standard normal: ``1/2 |z|^2 - log |det df/dx|`` is small then. Flow,
    network and proxies learn together. The paper's loss is the mean of that (``form="likelihood"``); its
    public code takes the mean of the exponential, which has a floor of zero, where the likelihood of points
    on a sphere has none. The public code is the default.

    The authors add it at weight 1 to 0.0075 times Proxy Anchor (0.01 by default), so a weight of 133 (100) is
    theirs beside a loss at full strength. The flow learns at 50 times their network's rate of 1e-5.

    Example:
        >>> x, proxies = torch.eye(2), torch.eye(2)
        >>> NonIsotropy(embedding_size=2)(x, labels=torch.tensor([0, 1]), proxies=proxies) > 0
        tensor(True)
    """

    embedding_size: int
    """D, at least 2: the flow works on two halves."""
    seed: int = 0
    """Of the flow's permutations and starting weights."""
    form: Literal["exponential", "likelihood"] = "exponential"
    """Whether the exponential of the negative log-likelihood is averaged, or itself."""
    blocks: Annotated[int, Field(ge=1, le=100)] = 5
    """Couplings of the flow."""
    depth: Annotated[int, Field(ge=2, le=100)] = 8
    """Layers of each network inside of a coupling."""
    width: Size = 128
    """Of their hidden layers."""
    clamp: float = 2.0
    """Limits the logarithm of a coupling's scales."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.embedding_size < 2:
            raise UsageError(
                "non_isotropy works on two halves of an embedding; it needs at least 2 dimensions"
            )
        self.flow = Flow(
            self.embedding_size,
            blocks=self.blocks,
            depth=self.depth,
            width=self.width,
            clamp=self.clamp,
            generator=torch_generator("non-isotropy", self.seed),
        )

    def forward(self, embeddings: Tensor, *, labels: Tensor, proxies: Tensor) -> Tensor:
        """The formula above, of embeddings (B x D), labels (B) and proxies (C x D): a scalar."""
        dtype = next(self.parameters()).dtype
        if not len(labels):
            return embeddings.sum()
        with torch.autocast(embeddings.device.type, enabled=False):
            points, conditions = unit(embeddings.to(dtype)), unit(proxies.to(dtype))[labels]
            image, grown = self.flow(points, conditions)
            surprise: Tensor = 0.5 * image.square().sum(dim=1) - grown
        return surprise.exp().mean() if self.form == "exponential" else surprise.mean()
