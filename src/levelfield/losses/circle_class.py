"""Circle loss with class-level labels: each cosine has its own weight."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import l2_normalize
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction


@register(
    "circle_class",
    kind="classification",
    paper="Circle Loss: A Unified Perspective of Pair Similarity Optimization",
    year=2020,
    own_lr=True,
    loss_lr=3e-3,
    space={"m": Float(0.0, 1.0), "gamma": Float(8.0, 512.0, log=True)},
)
class CircleClass(ClassificationLoss):
    """Circle loss over cosines to one weight per class; the defaults are the paper's for faces.

    Cross-entropy of gamma * a_p * (s_p - (1 - m)) at the true class and gamma * a_n * (s_n - m) elsewhere.

    s are cosines; a_p = [1 + m - s_p]+ and a_n = [s_n + m]+ are weights without a gradient, as in
    the paper. pytorch-metric-learning only has the pair-wise form.

    Example:
        >>> loss = CircleClass(num_classes=2, embedding_size=2, m=0.5, gamma=1.0)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.4741)
    """

    m: float = 0.25
    """Relaxation: targets of the cosines are 1 + m and -m, the boundaries 1 - m and m."""
    gamma: float = 256.0
    """Multiplies the logits."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_positive("gamma", self.gamma)
        super().__post_init__()

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        cosines = l2_normalize(embeddings) @ l2_normalize(weights).T
        index = labels[:, None]
        own = cosines.gather(1, index)
        others = torch.relu(cosines.detach() + self.m) * (cosines - self.m)
        target = torch.relu(1 + self.m - own.detach()) * (own - (1 - self.m))
        return softmax_loss(others.scatter(1, index, target) * self.gamma, labels, reduction=self.reduction)
