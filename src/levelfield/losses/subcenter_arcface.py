"""Sub-center ArcFace: ArcFace with a few centres per class, of which the nearest counts."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from levelfield.geometry import unit
from levelfield.losses import register
from levelfield.losses._classification import (
    ClassificationLoss,
    check_count,
    check_positive,
    softmax_loss,
)
from levelfield.losses._reduction import Reduction
from levelfield.losses.arcface import check_margin, cosine_with_margin
from levelfield.options import Size
from levelfield.space import Float, Int


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
    """ArcFace with a few centres per class, of which the nearest counts.

    ArcFace where the cosine to a class is the largest one to its centres.

    Equals pytorch-metric-learning's, with ArcFace's exception.

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
    """Centres per class."""
    reduction: Reduction = "mean"
    """How the losses of the samples become one number."""

    def __post_init__(self) -> None:
        check_count("sub_centers", self.sub_centers)
        check_margin(self.margin)
        check_positive("scale", self.scale)
        super().__post_init__()

    def vectors_per_class(self) -> int:
        """The centres of a class."""
        return self.sub_centers

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The formula above."""
        samples, centers = unit(embeddings), unit(weights)
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
