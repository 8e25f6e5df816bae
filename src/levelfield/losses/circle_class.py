"""Circle loss with class-level labels: each cosine is pushed with a strength of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import unit
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction
from levelfield.space import Float


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

    s are cosines; a_p = [1 + m - s_p]+ and a_n = [s_n + m]+ weigh them and take no gradient, as the paper
    has it. pytorch-metric-learning only has the pair-wise form.

    Example:
        >>> loss = CircleClass(num_classes=2, embedding_size=2, m=0.5, gamma=1.0)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.4741)
    """

    m: float = 0.25
    """The relaxation: cosines are led towards 1 + m and -m, past boundaries at 1 - m and m."""
    gamma: float = 256.0
    """Multiplies the logits."""
    reduction: Reduction = "mean"
    """How the losses of the samples become one number."""

    def __post_init__(self) -> None:
        check_positive("gamma", self.gamma)
        super().__post_init__()

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The formula above."""
        cosines = unit(embeddings) @ unit(weights).T
        index = labels[:, None]
        own = cosines.gather(1, index)
        others = torch.relu(cosines.detach() + self.m) * (cosines - self.m)
        target = torch.relu(1 + self.m - own.detach()) * (own - (1 - self.m))
        return softmax_loss(others.scatter(1, index, target) * self.gamma, labels, reduction=self.reduction)
