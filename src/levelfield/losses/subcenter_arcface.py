"""Sub-center ArcFace: ArcFace with several centers per class; the nearest counts."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from levelfield.core.geometry import l2_normalize
from levelfield.core.options import Size
from levelfield.core.space import Float, Int
from levelfield.losses import register
from levelfield.losses._classification import (
    ClassificationLoss,
    check_count,
    check_positive,
    softmax_loss,
)
from levelfield.losses._reduction import Reduction
from levelfield.losses.arcface import check_margin, cosine_with_margin


@register(
    "subcenter_arcface",
    kind="classification",
    paper="Sub-center ArcFace: Boosting Face Recognition by Large-scale Noisy Web Faces",
    year=2020,
    own_lr=True,
    loss_lr=2e-3,
    space={"margin": Float(0.0, 60.0), "scale": Float(1.0, 300.0, log=True), "sub_centers": Int(1, 10)},
)
class SubcenterArcFace(ClassificationLoss):
    """ArcFace with several centers per class; the nearest counts.

    The cosine to a class is the largest cosine to its centers. Equals pytorch-metric-learning's, with the
    same exception as ``arcface``.

    Example:
        >>> import torch
        >>> centers = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        >>> x, labels = torch.tensor([[-1.0, 0.0]]), torch.tensor([0])
        >>> loss = SubcenterArcFace(num_classes=2, embedding_size=2, margin=60.0, scale=1.0, sub_centers=2)
        >>> loss.compute(x, labels, centers)
        tensor(0.4741)
    """

    margin: float = 28.6
    """In degrees, added to the angle between the sample and its class."""
    scale: float = 64.0
    """Multiplies the cosines."""
    sub_centers: Size = 3
    """Centers per class."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_count("sub_centers", self.sub_centers)
        check_margin(self.margin)
        check_positive("scale", self.scale)
        super().__post_init__()

    def vectors_per_class(self) -> int:
        """Return the number of centers per class."""
        return self.sub_centers

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        samples, centers = l2_normalize(embeddings), l2_normalize(weights)
        cosines, nearest = (
            (samples @ centers.T)
            .view(len(samples), len(centers) // self.sub_centers, self.sub_centers)
            .max(dim=2)
        )
        index = labels[:, None]
        chosen = labels * self.sub_centers + nearest.gather(1, index).squeeze(1)
        target = cosine_with_margin(samples, F.embedding(chosen, centers), margin=self.margin)
        return softmax_loss(
            cosines.scatter(1, index, target[:, None]) * self.scale, labels, reduction=self.reduction
        )
