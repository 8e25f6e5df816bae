"""From pooled features (B x F) to embeddings (B x D)."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from levelfield.errors import UsageError, did_you_mean
from levelfield.models._trunk import positive
from levelfield.seeds import seed_for

HeadKind = Literal["linear", "none", "mlp"]
SHORTEST = 1e-12  # what counts as the norm of shorter embeddings, as in torch.nn.functional.normalize


class Head(nn.Module):
    """A projection followed, if ``normalize``, by division by the L2 norm.

    Attributes:
        size: D, the width of the embeddings.
    """

    def __init__(self, projection: nn.Module, *, size: int, normalize: bool = True) -> None:
        super().__init__()
        self.projection = projection
        self.size = size
        self.normalize = normalize

    def forward(self, features: Tensor) -> Tensor:
        """B x F to B x D."""
        if self._learns_quickly(features):
            quick: Tensor = _LinearUnit.apply(features, self.projection.weight, self.projection.bias)
            return quick
        embeddings: Tensor = self.projection(features)
        return F.normalize(embeddings, dim=-1) if self.normalize else embeddings

    def _learns_quickly(self, features: Tensor) -> bool:
        """Whether this is a training step of a normalised linear head, in plain float32 or float64."""
        return (
            self.training
            and self.normalize
            and isinstance(self.projection, nn.Linear)
            and features.ndim == 2
            and torch.is_grad_enabled()
            and features.dtype == self.projection.weight.dtype
            and not torch.is_autocast_enabled(features.device.type)
            and not torch.compiler.is_compiling()
        )


class _LinearUnit(torch.autograd.Function):
    """A linear layer and the division by the L2 norm, in one step.

    Training a head from kept features does little else. Autograd's own backward pass makes the gradient of
    the weights transposed and copies it, and takes a dozen steps for the norm.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        outputs = torch.addmm(bias, features, weight.t())
        norms = torch.linalg.vector_norm(outputs, dim=1, keepdim=True).clamp_(min=SHORTEST)
        embeddings = outputs.div_(norms)
        ctx.save_for_backward(features, weight, embeddings, norms)
        return embeddings

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        features, weight, embeddings, norms = ctx.saved_tensors
        along = (gradient * embeddings).sum(1, keepdim=True)
        across = torch.addcmul(gradient, embeddings, along, value=-1).div_(norms)
        of_features = across @ weight if ctx.needs_input_grad[0] else None
        return of_features, across.t() @ features, across.sum(0)


def create_head(
    kind: str = "linear",
    *,
    num_features: int,
    size: int = 128,
    normalize: bool = True,
    hidden: int | None = None,
    seed: int = 0,
) -> Head:
    """A head on features of width ``num_features``.

    Args:
        kind: "linear"; "mlp" (one hidden layer with ReLU); or "none", which keeps the features as they are
            and disregards ``size``.
        num_features: F, the width of the features.
        size: D, the width of the embeddings.
        normalize: Whether embeddings have unit length.
        hidden: The width of the MLP's hidden layer; F if None.
        seed: Of the initialisation. The global random state is neither read nor changed.

    Example:
        >>> create_head("linear", num_features=8, size=4)(torch.ones(2, 8)).norm(dim=1)
        tensor([1., 1.], grad_fn=...)
    """
    positive("head", "size", size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for("head", kind, seed))
        match kind:
            case "linear":
                projection: nn.Module = nn.Linear(num_features, size)
            case "mlp":
                middle = positive("head mlp", "hidden", hidden or num_features)
                projection = nn.Sequential(
                    nn.Linear(num_features, middle), nn.ReLU(inplace=True), nn.Linear(middle, size)
                )
            case "none":
                projection, size = nn.Identity(), num_features
            case _:
                raise UsageError(f'unknown head "{kind}"{did_you_mean(kind, get_args(HeadKind))}')
    return Head(projection, size=size, normalize=normalize)
