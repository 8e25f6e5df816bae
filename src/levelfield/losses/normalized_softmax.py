"""Normalised softmax: cross-entropy over cosine similarities to one weight per class."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive
from levelfield.space import Float


def normalized_softmax(
    embeddings: Tensor, labels: Tensor, weights: Tensor, *, temperature: float = 0.05
) -> Tensor:
    """Mean over samples of -log softmax(cos(x, w) / temperature) at the sample's class.

    Args:
        embeddings: B x D, of any length; normalised here.
        labels: B, in 0..C-1.
        weights: C x D, of any length; normalised here.
        temperature: Divides the cosines.

    Example:
        >>> import torch
        >>> x = torch.eye(2)
        >>> round(normalized_softmax(x, torch.tensor([0, 1]), x, temperature=1.0).item(), 4)
        0.3133
    """
    cosines = F.normalize(embeddings) @ F.normalize(weights).T
    return F.cross_entropy(cosines / temperature, labels)


@register(
    "normalized_softmax",
    kind="classification",
    paper="Zhai and Wu, Classification is a Strong Baseline for Deep Metric Learning, BMVC",
    year=2019,
    space={"temperature": Float(0.01, 1.0, log=True)},
    own_lr=True,
    loss_lr=4e-3,
    reported_by=("reality-check", "revisiting"),
)
class NormalizedSoftmax(ClassificationLoss):
    """Cross-entropy over cosine similarities to one learned weight per class.

    The default temperature is the paper's; the published optima lie between 0.063 and 0.109.

    Example:
        >>> import torch
        >>> loss = NormalizedSoftmax(num_classes=3, embedding_size=8)
        >>> loss(torch.ones(4, 8), torch.tensor([0, 1, 2, 0])).ndim
        0
    """

    def __init__(
        self, *, num_classes: int, embedding_size: int, temperature: float = 0.05, seed: int = 0
    ) -> None:
        super().__init__(num_classes=num_classes, embedding_size=embedding_size, seed=seed)
        check_positive("temperature", temperature)
        self.temperature = temperature

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """See :func:`normalized_softmax`."""
        return normalized_softmax(embeddings, labels, weights, temperature=self.temperature)
