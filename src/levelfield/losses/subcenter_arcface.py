"""Sub-center ArcFace: ArcFace with a few centres per class, of which the nearest counts."""

from __future__ import annotations

from functools import partial

from torch import Tensor
from torch.nn import functional as F

from levelfield.losses import register
from levelfield.losses._classification import (
    ClassificationLoss,
    check_count,
    check_positive,
    softmax_loss,
)
from levelfield.losses._distances import unit
from levelfield.losses._reduction import Reduction
from levelfield.losses.arcface import check_margin, cosine_with_margin
from levelfield.space import Float, Int


def subcenter_arcface(
    embeddings: Tensor,
    labels: Tensor,
    weights: Tensor,
    *,
    margin: float = 28.6,
    scale: float = 64.0,
    sub_centers: int = 3,
    reduction: Reduction = "mean",
) -> Tensor:
    """ArcFace where the cosine to a class is the largest one to its centres.

    Equals pytorch-metric-learning's, with ArcFace's exception.

    Args:
        embeddings: B x D, of any length; normalised here.
        labels: B, in 0..C-1.
        weights: (C * sub_centers) x D, the centres of a class in consecutive rows; normalised here.
        margin: In degrees, added to the angle between the sample and its class.
        scale: Multiplies the cosines.
        sub_centers: Centres per class.
        reduction: How the losses of the samples become one number.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> centers = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        >>> x, labels = torch.tensor([[-1.0, 0.0]]), torch.tensor([0])
        >>> subcenter_arcface(x, labels, centers, margin=60.0, scale=1.0, sub_centers=2)
        tensor(0.4741)
    """
    samples, centers = unit(embeddings), unit(weights)
    cosines, nearest = (
        (samples @ centers.T).view(len(samples), len(centers) // sub_centers, sub_centers).max(dim=2)
    )
    index = labels[:, None]
    chosen = labels * sub_centers + nearest.gather(1, index).squeeze(1)
    target = cosine_with_margin(samples, F.embedding(chosen, centers), margin=margin)
    return softmax_loss(cosines.scatter(1, index, target[:, None]) * scale, labels, reduction=reduction)


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

    Example:
        >>> import torch
        >>> loss = SubcenterArcFace(num_classes=3, embedding_size=8)
        >>> loss(torch.ones(4, 8), torch.tensor([0, 1, 2, 0])).ndim
        0
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        margin: float = 28.6,
        scale: float = 64.0,
        sub_centers: int = 3,
        reduction: Reduction = "mean",
        seed: int = 0,
    ) -> None:
        check_count("sub_centers", sub_centers)
        check_margin(margin)
        check_positive("scale", scale)
        function = partial(
            subcenter_arcface, margin=margin, scale=scale, sub_centers=sub_centers, reduction=reduction
        )
        super().__init__(
            function,
            num_classes=num_classes,
            embedding_size=embedding_size,
            seed=seed,
            vectors_per_class=sub_centers,
        )
