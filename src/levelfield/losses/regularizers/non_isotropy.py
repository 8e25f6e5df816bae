"""Non-isotropy: a normalizing flow models the distribution of samples around their proxy."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.geometry import l2_normalize
from levelfield.core.options import Size
from levelfield.core.seeds import torch_generator
from levelfield.losses.regularizers import Regularizer, register
from levelfield.losses.regularizers._flow import Flow


@register(
    "non_isotropy",
    paper="Non-isotropy Regularization for Proxy-based Deep Metric Learning",
    year=2022,
    sees=("labels", "proxies"),
    lr=5e-4,
)
class NonIsotropy(Regularizer):
    """Negative log-likelihood of the samples under a normalizing flow, given their proxies.

    A normalizing flow f, conditioned on the unit proxy p of a sample's class, maps the unit embedding x to
    ``z = f(x | p)``. If z is standard normal, ``1/2 |z|^2 - log |det df/dx|`` is small. Flow, network and
    proxies learn together. The paper's loss is the mean of that term (``form="likelihood"``). Its public code
    takes the mean of the exponential, which is bounded below by zero; the likelihood of points on a sphere
    has no bound. The public code is the default.

    The authors add it with weight 1 to 0.0075 times Proxy Anchor (0.01 by default). With a loss of weight 1,
    that is a weight of 133 (100). The flow learns at 50 times their network's rate of 1e-5.

    Example:
        >>> x, proxies = torch.eye(2), torch.eye(2)
        >>> NonIsotropy(embedding_size=2)(x, labels=torch.tensor([0, 1]), proxies=proxies) > 0
        tensor(True)
    """

    embedding_size: int
    """D, the size of the embeddings; at least 2, because the flow works on two halves."""
    seed: int = 0
    """Seed of the flow's permutations and initial weights."""
    form: Literal["exponential", "likelihood"] = "exponential"
    """Mean of the exponential of the negative log-likelihood, or of the negative log-likelihood."""
    blocks: Annotated[int, Field(ge=1, le=100)] = 5
    """Number of couplings of the flow."""
    depth: Annotated[int, Field(ge=2, le=100)] = 8
    """Layers of each network of a coupling."""
    width: Size = 128
    """Width of their hidden layers."""
    clamp: float = 2.0
    """Limit of the logarithm of a coupling's scales."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.embedding_size < 2:
            raise UsageError("non_isotropy works on two halves of an embedding; use at least 2 dimensions")
        self.flow = Flow(
            self.embedding_size,
            blocks=self.blocks,
            depth=self.depth,
            width=self.width,
            clamp=self.clamp,
            generator=torch_generator("non-isotropy", self.seed),
        )

    def forward(self, embeddings: Tensor, *, labels: Tensor, proxies: Tensor) -> Tensor:
        """Return the value, a scalar, for embeddings (B x D), labels (B) and proxies (C x D)."""
        dtype = next(self.parameters()).dtype
        if not len(labels):
            return embeddings.sum()
        with torch.autocast(embeddings.device.type, enabled=False):
            points, conditions = l2_normalize(embeddings.to(dtype)), l2_normalize(proxies.to(dtype))[labels]
            latent, log_determinants = self.flow(points, conditions)
            losses: Tensor = 0.5 * latent.square().sum(dim=1) - log_determinants
        return losses.exp().mean() if self.form == "exponential" else losses.mean()
