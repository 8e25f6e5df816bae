"""HIER: a tree of samples and learned ancestors, in hyperbolic space."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield.core.geometry import attach_gradient, check_embeddings
from levelfield.core.options import Positive, Size
from levelfield.core.seeds import torch_generator
from levelfield.losses._poincare import poincare_distances
from levelfield.losses.regularizers import Regularizer, register

CHUNK = 512  # triplets at a time; their distances fit into the processor's cache


@register(
    "hier",
    paper="HIER: Metric Learning Beyond Class Labels via Hierarchical Regularization",
    year=2023,
    sees=("labels",),
    lr=5e-3,
)
class Hier(Regularizer):
    """Hinge on learned ancestors: that of two related samples is nearer than the one shared with a third.

    The ancestors are ``ancestors`` learned vectors without a class. A triplet has two related samples i, j
    and an unrelated sample k. An ancestor a of i and j is drawn by ``-max(d_ia, d_ja) / tau``, and an
    ancestor b of all three likewise: the largest after adding Gumbel noise, with the gradient of the softmax.
    The loss is the mean over triplets of ``[d_ia - d_ib + margin]+ + [d_ja - d_jb + margin]+ + [d_kb - d_ka +
    margin]+``, zero where a is b; d is the distance in the Poincare ball. Two samples are related if they are
    among each other's ``neighbors`` nearest (each counts itself); samples of one class count as nearest. The
    same loss of the ancestors among themselves is added.

    The authors scale the ancestors' gradients by the metric of the ball, which Adam undoes; here they are
    plain. Their triplets may take the anchor itself as the unrelated sample; here they do not. Distances are
    those of the embeddings as given: raw in the paper; unit vectors all have the same distance from the
    origin. The authors use weight 0.5 with Proxy Anchor, and 50 times the network's learning rate of 1e-4.

    Example:
        >>> x, y = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) // 4
        >>> Hier(embedding_size=4, ancestors=16, neighbors=4)(x, labels=y) > 0
        tensor(True)
    """

    embedding_size: int
    """D, the size of the embeddings."""
    seed: int = 0
    """Seed of the initial ancestors, the triplets and the noise."""
    ancestors: Size = 512
    """Number of ancestors."""
    neighbors: Size = 20
    """Number of nearest samples that may be related."""
    triplets: Size = 50
    """Triplets drawn, with replacement, for each sample that has at least two related samples."""
    margin: float = 0.1
    """Required difference of the distances to the two ancestors."""
    tau: Positive = 0.1
    """Temperature: divides the distances by which ancestors are drawn."""
    curvature: Positive = 0.1
    """Curvature of the ball."""
    clip_radius: Positive = 2.3
    """Longer vectors are shortened to this length."""

    def __post_init__(self) -> None:
        super().__post_init__()
        start = torch.randn(
            self.ancestors, self.embedding_size, generator=torch_generator("ancestors", self.seed)
        )
        self.vectors = nn.Parameter(start * (0.9 * self.clip_radius / math.sqrt(self.embedding_size)))
        self.step: Tensor
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(self, embeddings: Tensor, *, labels: Tensor) -> Tensor:
        """Return the value of the formula above for embeddings (B x D) and labels (B); a scalar."""
        points = check_embeddings(embeddings, labels)
        size = len(labels)
        generator = torch_generator("hierarchy", self.seed, int(self.step))
        if self.training:
            self.step += 1
        everything = torch.cat([points, self.vectors.to(points.dtype)])
        distances = poincare_distances(everything, curvature=self.curvature, clip_radius=self.clip_radius)
        with torch.no_grad():
            similarity = (-distances).exp()
            similarity[:size, :size] += labels[:, None] == labels
        value = points.sum() * 0
        for part in (slice(0, size), slice(size, None)):
            chosen = sample_triplets(
                similarity[part, part], neighbors=self.neighbors, count=self.triplets, generator=generator
            )
            value = value + self._tree_loss(distances[part, size:], chosen, generator)
        return value

    def _tree_loss(
        self, distances: Tensor, triplets: tuple[Tensor, ...], generator: torch.Generator
    ) -> Tensor:
        """Return the loss of triplets of rows of ``distances`` (N x ancestors).

        Value and gradient are computed chunk by chunk. Autograd would keep tens of thousands of triplets
        times hundreds of ancestors for a dozen operations, which would fill the memory.
        """
        count = len(triplets[0])
        if not count:
            return distances.sum() * 0
        leaf = distances.detach().requires_grad_()
        value, gradient = torch.zeros_like(leaf[0, 0]), torch.zeros_like(leaf)
        for one, two, three in zip(*(torch.split(rows, CHUNK) for rows in triplets), strict=True):
            with torch.enable_grad():
                near = leaf.index_select(0, one), leaf.index_select(0, two)
                part = self._hinge_loss(*near, leaf.index_select(0, three), generator) / count
            gradient += torch.autograd.grad(part, leaf)[0]
            value = value + part.detach()
        return attach_gradient(value.detach(), distances, gradient)

    def _hinge_loss(self, one: Tensor, two: Tensor, three: Tensor, generator: torch.Generator) -> Tensor:
        """Return the sum over triplets, from the distances of all three to the ancestors (T x ancestors)."""
        both = torch.maximum(one, two)
        near = gumbel_one_hot(both / -self.tau, generator=generator)
        far = gumbel_one_hot(torch.maximum(both, three) / -self.tau, generator=generator)
        gap = near - far
        terms = (
            F.relu((one * gap).sum(1) + self.margin)
            + F.relu((two * gap).sum(1) + self.margin)
            + F.relu(self.margin - (three * gap).sum(1))
        )
        return (terms * (near.detach().argmax(1) != far.detach().argmax(1))).sum()


def gumbel_one_hot(logits: Tensor, *, generator: torch.Generator) -> Tensor:
    """Return one-hot rows (N x M) drawn by the softmax of ``logits``, with the gradient of the softmax.

    Example:
        >>> gumbel_one_hot(torch.tensor([[0.0, 99.0]]), generator=torch.Generator())
        tensor([[0., 1.]])
    """
    uniform = torch.rand(logits.shape, generator=generator, dtype=logits.dtype).to(logits.device)
    noise = uniform.clamp_(min=torch.finfo(uniform.dtype).tiny).log_().neg_().log_()
    noisy = logits - noise
    soft = noisy.softmax(dim=1)
    hard = torch.zeros_like(soft).scatter_(1, noisy.argmax(1, keepdim=True), 1.0)
    return hard + (soft - soft.detach()) if soft.requires_grad else hard


@torch.no_grad()
def sample_triplets(
    similarity: Tensor, *, neighbors: int, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw triplets of an anchor, a related sample and an unrelated one.

    Args:
        similarity: N x N; samples are related if each is among the other's ``neighbors`` largest.
        neighbors: Number of nearest samples; at most N are used.
        count: Triplets for each anchor that has at least two related samples, drawn with replacement.
        generator: CPU generator.

    Returns:
        Anchors, related samples and unrelated samples, of equal length.

    Example:
        >>> similarity = torch.block_diag(torch.ones(3, 3), torch.ones(3, 3))
        >>> anchor, related, other = sample_triplets(
        ...     similarity, neighbors=3, count=2, generator=torch.Generator()
        ... )
        >>> anchor.tolist(), (anchor // 3 == related // 3).all(), (anchor // 3 != other // 3).all()
        ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5], tensor(True), tensor(True))
    """
    nearest = similarity.topk(min(neighbors, len(similarity)), dim=1).indices
    close = torch.zeros_like(similarity, dtype=torch.bool).scatter_(1, nearest, True)
    related = close & close.T
    others = (~related).fill_diagonal_(False)
    related.fill_diagonal_(False)
    anchors = ((related.sum(1) > 1) & others.any(1)).nonzero().squeeze(1)
    draws = [
        torch.multinomial(mask[anchors].float().cpu(), count, replacement=True, generator=generator)
        if len(anchors)
        else anchors[:, None].expand(-1, count)
        for mask in (related, others)
    ]
    related_sample, other = (drawn.flatten().to(anchors.device) for drawn in draws)
    return anchors.repeat_interleave(count), related_sample, other
