"""ProxyNCA++: Proxy-NCA with the own proxy in the denominator and a temperature."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import l2_normalize
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction


@register(
    "proxy_nca_pp",
    kind="classification",
    paper="ProxyNCA++: Revisiting and Revitalizing Proxy Neighborhood Component Analysis",
    year=2020,
    own_lr=True,
    loss_lr=2.5e-3,
    space={"temperature": Float(0.01, 1.0, log=True)},
)
class ProxyNCAPlusPlus(ClassificationLoss):
    """Log-probability that a sample is assigned to its own proxy, with a temperature.

    -log softmax(-d(x, w) / T) at each sample's class, d the squared distance of unit vectors.

    The same as Proxy-NCA with the sample's own proxy in the denominator and ``softmax_scale`` = 1 / T. The
    other additions of the paper (a fast proxy learning rate, max pooling, layer norm, balanced batches)
    belong to other parts of a method.

    Initial proxies are N(0, 1/8²), as in the authors' code.

    Example:
        >>> import torch
        >>> loss = ProxyNCAPlusPlus(num_classes=2, embedding_size=2, temperature=1.0)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.1269)
    """

    temperature: float = 1 / 9
    """T; divides the squared distances."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)
        super().__post_init__()

    def init_std(self) -> float:
        """Return the standard deviation of the authors' initial proxies."""
        return 1 / 8

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        logits = l2_normalize(embeddings) @ l2_normalize(weights).T * (2 / self.temperature)
        return softmax_loss(logits, labels, reduction=self.reduction)
