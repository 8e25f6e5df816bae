"""Heads: pooled features (B x F) to embeddings (B x D)."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.seeds import seed_for
from levelfield.models._trunk import check_positive

HeadKind = Literal["linear", "none", "mlp"]
MIN_NORM = 1e-12  # lower limit of norms, as in torch.nn.functional.normalize


class Head(nn.Module):
    """Projection, followed by L2 normalization if ``normalize``.

    Attributes:
        size: Embedding size D.
    """

    def __init__(self, projection: nn.Module, *, size: int, normalize: bool = True) -> None:
        super().__init__()
        self.projection = projection
        self.size = size
        self.normalize = normalize

    def forward(self, features: Tensor) -> Tensor:
        """Return the embeddings (B x D) of features (B x F)."""
        if self._can_use_fused_layer(features):
            fused: Tensor = _FusedNormalizedLinear.apply(
                features, self.projection.weight, self.projection.bias
            )
            return fused
        embeddings: Tensor = self.projection(features)
        return F.normalize(embeddings, dim=-1) if self.normalize else embeddings

    def _can_use_fused_layer(self, features: Tensor) -> bool:
        """Return whether this is a training step of a normalized linear head, without autocast or compile."""
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


class _FusedNormalizedLinear(torch.autograd.Function):
    """Linear layer and L2 normalization in one operation.

    Most time of head training from cached features is spent here. Autograd's backward pass is slower: it
    computes the weight gradient transposed and copies it, and needs a dozen operations for the norm.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        outputs = torch.addmm(bias, features, weight.t())
        norms = torch.linalg.vector_norm(outputs, dim=1, keepdim=True).clamp_(min=MIN_NORM)
        embeddings = outputs.div_(norms)
        ctx.save_for_backward(features, weight, embeddings, norms)
        return embeddings

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        features, weight, embeddings, norms = ctx.saved_tensors
        along = (gradient * embeddings).sum(1, keepdim=True)
        across = torch.addcmul(gradient, embeddings, along, value=-1).div_(norms)
        features_gradient = across @ weight if ctx.needs_input_grad[0] else None
        return features_gradient, across.t() @ features, across.sum(0)


def create_head(
    kind: str = "linear",
    *,
    num_features: int,
    size: int = 128,
    normalize: bool = True,
    hidden: int | None = None,
    seed: int = 0,
) -> Head:
    """Return a head on features of width ``num_features``.

    Args:
        kind: "linear"; "mlp" (one hidden layer with ReLU); or "none", which returns the features unchanged
            and ignores ``size``.
        num_features: Feature size F.
        size: Embedding size D.
        normalize: Whether embeddings have unit length.
        hidden: Width of the hidden layer of the MLP. Defaults to F.
        seed: Seed of the initialization. The global random state is neither read nor changed.

    Example:
        >>> create_head("linear", num_features=8, size=4)(torch.ones(2, 8)).norm(dim=1)
        tensor([1., 1.], grad_fn=...)
    """
    check_positive("head", "size", size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for("head", kind, seed))
        match kind:
            case "linear":
                projection: nn.Module = nn.Linear(num_features, size)
            case "mlp":
                middle = check_positive("head mlp", "hidden", hidden or num_features)
                projection = nn.Sequential(
                    nn.Linear(num_features, middle), nn.ReLU(inplace=True), nn.Linear(middle, size)
                )
            case "none":
                projection, size = nn.Identity(), num_features
            case _:
                raise UsageError(f'unknown head "{kind}"{did_you_mean(kind, get_args(HeadKind))}')
    return Head(projection, size=size, normalize=normalize)
