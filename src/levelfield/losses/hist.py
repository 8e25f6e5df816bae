"""HIST: class distributions and a hypergraph network over the batch."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield.core.geometry import l2_normalize
from levelfield.core.options import Positive, Size
from levelfield.core.seeds import torch_generator
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive
from levelfield.losses._layers import seeded_linear
from levelfield.losses.proxy_anchor import proxy_init_std


@register(
    "hist",
    kind="classification",
    paper="Hypergraph-Induced Semantic Tuplet Loss for Deep Metric Learning",
    year=2022,
    own_lr=True,
    loss_lr=1e-1,
    space={"tau": Float(1.0, 100.0, log=True), "alpha": Float(0.1, 4.0, log=True)},
)
class Hist(ClassificationLoss):
    """Classify samples by class distributions, and again by a hypergraph network.

    Each class has a mean on the sphere and a variance for each dimension, ``exp(relu6(log_variances))``; d is
    the squared Mahalanobis distance of a unit embedding to a class. The distribution loss is the
    cross-entropy of ``-tau d``. The classes of the batch are the edges of a hypergraph of its samples. A
    sample belongs to the edge of its own class with weight 1 and to another edge with weight ``exp(-alpha
    d)``. Two hypergraph convolutions ``G (x W + b)``, with ``G = Dv^-1/2 H De^-1 H' Dv^-1/2``, and with batch
    normalization and a leaky ReLU between them, classify the samples again; that cross-entropy is added.

    The authors apply layer norm to embeddings, which gives them length sqrt(D); here unit vectors are scaled
    to that length before the network. Where their softmax rounds to zero they drop the sample; here it
    counts. A batch of one sample is normalized by the moving averages, as in evaluation mode.

    Example:
        >>> loss = Hist(num_classes=2, embedding_size=2, hypergraph_weight=0.0, tau=1.0)
        >>> _ = nn.init.zeros_(loss.log_variances)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))  # log(1 + exp(-2))
        tensor(0.1269, grad_fn=<AddBackward0>)
    """

    accepts_extra_classes: ClassVar[bool] = False
    """A class also has variances and a row of the network."""

    tau: float = 32.0
    """Multiplies the distances in the softmax of the distribution loss."""
    alpha: float = 0.9
    """Decay of the membership in another class's edge with the distance."""
    hypergraph_weight: float = 1.0
    """Weight of the second cross-entropy (lambda_s in the paper)."""
    hidden: Size = 512
    """Width between the two convolutions."""
    network_lr: Positive = 1e-3
    """Learning rate of the convolutions; means and variances learn at ``loss_lr``."""

    def __post_init__(self) -> None:
        check_positive("tau", self.tau)
        check_positive("alpha", self.alpha)
        super().__post_init__()
        random = torch_generator("hypergraph network", self.seed)
        log_variances = torch.randn(self.weights.shape, generator=random) * self.init_std()
        self.log_variances = nn.Parameter(log_variances)
        self.network = nn.ModuleDict(
            {
                "first": seeded_linear(self.embedding_size, self.hidden, generator=random),
                "norm": nn.BatchNorm1d(self.hidden),
                "second": seeded_linear(self.hidden, self.num_classes, generator=random),
            }
        )

    def init_std(self) -> float:
        """Return the authors' initial standard deviation of means and of log variances."""
        return proxy_init_std(self.num_classes)

    def parameters_with_lr(self, loss_lr: float) -> list[tuple[list[nn.Parameter], float]]:
        """Return means and variances with ``loss_lr``, and the network with ``network_lr``."""
        return [
            ([self.weights, self.log_variances], loss_lr),
            (list(self.network.parameters()), self.network_lr),
        ]

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        samples = l2_normalize(embeddings)
        distances = mahalanobis(samples, l2_normalize(weights), F.relu6(self.log_variances.to(weights.dtype)))
        value = F.cross_entropy(-self.tau * distances, labels)
        own = F.one_hot(labels, self.num_classes).to(distances.dtype)
        # The edges of classes that are not in the batch stay empty: cheaper than selecting the others.
        edges = torch.where(own > 0, 1.0, (-self.alpha * distances).exp()) * own.amax(dim=0)
        logits = self._classify(samples * math.sqrt(self.embedding_size), edges)
        return value + self.hypergraph_weight * F.cross_entropy(logits, labels)

    def _classify(self, samples: Tensor, edges: Tensor) -> Tensor:
        """Return logits (B x C) of samples (B x D) with edge memberships ``edges`` (B x C)."""
        first, norm, second = self.network["first"], self.network["norm"], self.network["second"]
        assert isinstance(first, nn.Linear)
        assert isinstance(norm, nn.BatchNorm1d)
        assert isinstance(second, nn.Linear)
        dtype = samples.dtype
        # G (x W + 1 b) = (G x) W + (G 1) b: messages are narrower before the layer than after it.
        messages = convolve(edges, torch.cat([samples, samples.new_ones(len(samples), 1)], dim=1))
        hidden = messages @ torch.cat([first.weight, first.bias[:, None]], dim=1).to(dtype).T
        norm.train(self.training and len(hidden) > 1)
        hidden = F.leaky_relu(norm(hidden.to(norm.weight.dtype)).to(dtype), 0.1)
        return convolve(edges, F.linear(hidden, second.weight.to(dtype), second.bias.to(dtype)))


def mahalanobis(points: Tensor, means: Tensor, log_variances: Tensor) -> Tensor:
    """Return squared distances (B x C) of points (B x D) to distributions (means and log variances, C x D).

    Example:
        >>> mahalanobis(torch.tensor([[3.0, 0.0]]), torch.zeros(1, 2), torch.zeros(1, 2))
        tensor([[9.]])
    """
    precisions = (-log_variances).exp()
    scaled = means * precisions
    return points.square() @ precisions.T - 2 * points @ scaled.T + (means * scaled).sum(dim=1)


def convolve(edges: Tensor, signals: Tensor) -> Tensor:
    """Return ``Dv^-1/2 H De^-1 H' Dv^-1/2`` times signals (B x F), for edges H (B x E), ignoring empty edges.

    Example:
        >>> convolve(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0], [3.0]])).flatten()
        tensor([2., 2.])
    """
    nodes = edges.sum(dim=1, keepdim=True).rsqrt()
    sizes = edges.sum(dim=0)[:, None]
    share = torch.where(sizes > 0, 1 / sizes.clamp(min=torch.finfo(sizes.dtype).tiny), 0.0)
    messages: Tensor = nodes * (edges @ (share * (edges.T @ (nodes * signals))))
    return messages
