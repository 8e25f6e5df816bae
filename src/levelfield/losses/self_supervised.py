"""Losses of labels on views of samples without labels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from levelfield.core.errors import UsageError
from levelfield.core.geometry import Pairs, keep_batch_anchors


class SelfSupervised(nn.Module):
    """Use a loss on views of unlabeled samples: each sample is its own class.

    Row i of every view is the same sample under another augmentation. So samples of one class are the views
    of one sample, and all other samples are negatives.

    Args:
        loss: Called with embeddings, labels and, if not ``symmetric``, pairs; one of ours or of another
            library.
        symmetric: Whether views are compared with each other and within themselves. If not, the rows of the
            first view are anchors, and they are compared with the other views only.

    Example:
        >>> from levelfield.losses import NTXent
        >>> one, two = torch.eye(3), torch.eye(3)
        >>> SelfSupervised(NTXent(temperature=0.1))(one, two) < 0.01
        tensor(True)
    """

    def __init__(self, loss: nn.Module, *, symmetric: bool = True) -> None:
        super().__init__()
        self.loss = loss
        self.symmetric = symmetric

    def forward(self, embeddings: Tensor, *views: Tensor) -> Tensor:
        """Return the loss, a scalar, of ``embeddings`` (B x D) and one or more other ``views`` (B x D)."""
        if not views or any(view.shape != embeddings.shape for view in views):
            shapes = ", ".join(str(tuple(view.shape)) for view in (embeddings, *views))
            raise UsageError(
                f"views of the same samples have the same shape, got {shapes}; give two views or more, "
                "row i of each from sample i"
            )
        samples = torch.arange(len(embeddings), device=embeddings.device)
        labels = samples.repeat(1 + len(views))
        everything = torch.cat([embeddings, *views])
        value: Tensor
        if self.symmetric:
            value = self.loss(everything, labels)
        else:
            same = samples[:, None] == labels[len(samples) :]
            positive, negative = same.nonzero(as_tuple=True), (~same).nonzero(as_tuple=True)
            shift = len(samples)
            pairs = Pairs(positive[0], positive[1] + shift, negative[0], negative[1] + shift)
            value = self.loss(everything, labels, keep_batch_anchors(pairs, shift))
        return value
