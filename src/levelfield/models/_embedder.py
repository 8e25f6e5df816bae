"""Embedder: trunk, pooling and head."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.models._heads import Head, create_head
from levelfield.models._pooling import create_pooling
from levelfield.models._trunk import Trunk

BatchNormMode = Literal["train", "statistics", "all"]


class Embedder(nn.Module):
    """Network from images to embeddings: ``project(features(images))``.

    Attributes:
        trunk: Trunk; its BatchNorm layers follow ``freeze_bn``, also after ``train()``.
        pooling: Module from maps to vectors.
        head: Projection and L2 norm.
        freeze_bn: "train" trains BatchNorm as usual. "statistics" freezes the running mean and variance and
            uses them in training too. "all" also freezes scale and shift.
    """

    def __init__(
        self, trunk: Trunk, pooling: nn.Module, head: Head, *, freeze_bn: BatchNormMode = "train"
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.pooling = pooling
        self.head = head
        self.freeze_bn = freeze_bn
        if freeze_bn == "all":
            for layer in self.batch_norms():
                layer.requires_grad_(False)
        self.train()

    @property
    def size(self) -> int:
        """Embedding size D."""
        return self.head.size

    def features(self, images: Tensor) -> Tensor:
        """Return the pooled features (B x F) of images (B x C x H x W)."""
        maps: Tensor = self.trunk(images)
        pooled: Tensor = self.pooling(maps)
        return pooled

    def project(self, features: Tensor) -> Tensor:
        """Return the embeddings (B x D) of pooled features (B x F)."""
        embeddings: Tensor = self.head(features)
        return embeddings

    def forward(self, images: Tensor) -> Tensor:
        """Return the embeddings (B x D) of images (B x C x H x W)."""
        return self.project(self.features(images))

    def train(self, mode: bool = True) -> Embedder:
        """Set training mode, except for frozen BatchNorm layers."""
        super().train(mode)
        if self.freeze_bn != "train":
            for layer in self.batch_norms():
                layer.eval()
        return self

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Return the trainable parameters by group; groups may have different learning rates.

        Parameters of the pooling (the power of GeM) belong to the head.
        """
        return {
            "trunk": [p for p in self.trunk.parameters() if p.requires_grad],
            "head": [p for part in (self.pooling, self.head) for p in part.parameters() if p.requires_grad],
        }

    def batch_norms(self) -> list[_BatchNorm]:
        """Return the BatchNorm layers of the trunk."""
        return [layer for layer in self.trunk.modules() if isinstance(layer, _BatchNorm)]


def create_embedder(
    *,
    trunk: Trunk,
    pooling: str = "avg",
    head: str = "linear",
    size: int = 128,
    normalize: bool = True,
    freeze_bn: BatchNormMode = "train",
    hidden: int | None = None,
    seed: int = 0,
) -> Embedder:
    """Return an embedder on top of ``trunk``.

    Args:
        trunk: Trunk from :func:`levelfield.models.create_trunk`.
        pooling: "avg", "max", "avg+max" or "gem"; a trunk that pools by itself allows only "avg".
        head: "linear", "mlp" or "none"; see :func:`levelfield.models.create_head`.
        size: Embedding size D.
        normalize: Whether embeddings have unit length.
        freeze_bn: "train", "statistics" or "all"; see :class:`Embedder`.
        hidden: Width of the hidden layer of an MLP head.
        seed: Seed of the head's initialization.

    Example:
        >>> import torch
        >>> from levelfield import models
        >>> trunk = models.create_trunk("conv4", in_channels=1, width=8)
        >>> embedder = models.create_embedder(trunk=trunk, size=16)
        >>> embedder(torch.rand(3, 1, 32, 32)).shape
        torch.Size([3, 16])
    """
    if freeze_bn not in get_args(BatchNormMode):
        raise UsageError(f'unknown freeze_bn "{freeze_bn}"{did_you_mean(freeze_bn, get_args(BatchNormMode))}')
    if not trunk.spatial and pooling != "avg":
        raise UsageError(f'trunk {trunk.name} pools by itself; set pooling to "avg" instead of "{pooling}"')
    return Embedder(
        trunk,
        create_pooling(pooling) if trunk.spatial else nn.Identity(),
        create_head(
            head, num_features=trunk.num_features, size=size, normalize=normalize, hidden=hidden, seed=seed
        ),
        freeze_bn=freeze_bn,
    )
