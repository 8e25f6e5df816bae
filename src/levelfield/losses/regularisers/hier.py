"""HIER: samples and the proxies above them form a tree, in hyperbolic space."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield.geometry import checked, with_gradient
from levelfield.losses._ball import distances_in_ball
from levelfield.losses._module import Loss
from levelfield.losses.regularisers import register
from levelfield.options import Positive, Size
from levelfield.seeds import torch_generator

AT_ONCE = 512  # triplets; the working set then fits into the caches of a processor


@register(
    "hier",
    paper="HIER: Metric Learning Beyond Class Labels via Hierarchical Regularization",
    year=2023,
    sees=("labels",),
    lr=5e-3,
)
class Hier(Loss):
    """Two related samples have a common ancestor that is nearer to them than the one shared with a third.

    The ancestors are ``ancestors`` proxies that belong to no class. For a triplet of two related samples i, j
    and an unrelated k, an ancestor a of i and j is drawn by ``-max(d_ia, d_ja) / tau``, and one b of all
    three likewise (the largest after adding Gumbel noise, with the gradient of the softmax). Then
    ``[d_ia - d_ib + margin]+ + [d_ja - d_jb + margin]+ + [d_kb - d_ka + margin]+``, zero where a is b, is
    averaged over the triplets; d is the distance in the Poincare ball. Related are those that are among each
    other's ``neighbours`` nearest (oneself included), samples of one class counting as nearest. The same is
    asked of the ancestors among themselves, and added.

    The authors scale the ancestors' gradients by the metric of the ball, which Adam undoes; here they are
    plain. Their triplets may take the anchor itself for the unrelated one; here they do not. Distances are
    those of the embeddings as the loss gets them: the paper's are raw, and of unit ones all lie equally
    far out. They use weight 0.5 beside Proxy Anchor, and 50 times the network's rate of 1e-4.

    Example:
        >>> x, y = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) // 4
        >>> Hier(embedding_size=4, ancestors=16, neighbours=4)(x, labels=y) > 0
        tensor(True)
    """

    embedding_size: int
    """D."""
    seed: int = 0
    """Of the starting ancestors, the triplets and the noise."""
    ancestors: Size = 512
    """How many there are."""
    neighbours: Size = 20
    """How many of the nearest count as possible relatives."""
    triplets: Size = 50
    """Drawn for each sample that has at least two relatives, with replacement."""
    margin: float = 0.1
    """By how much the nearer ancestor must be nearer."""
    tau: Positive = 0.1
    """Divides the distances by which ancestors are drawn."""
    curvature: Positive = 0.1
    """How much the ball is curved."""
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
        """The formula above, of embeddings (B x D) and labels (B); a scalar."""
        points = checked(embeddings, labels)
        size = len(labels)
        random = torch_generator("hierarchy", self.seed, int(self.step))
        if self.training:
            self.step += 1
        everything = torch.cat([points, self.vectors.to(points.dtype)])
        distances = distances_in_ball(everything, curvature=self.curvature, clip_radius=self.clip_radius)
        with torch.no_grad():
            likeness = (-distances).exp()
            likeness[:size, :size] += labels[:, None] == labels
        value = points.sum() * 0
        for part in (slice(0, size), slice(size, None)):
            chosen = related_triplets(
                likeness[part, part], neighbours=self.neighbours, count=self.triplets, generator=random
            )
            value = value + self._tree(distances[part, size:], chosen, random)
        return value

    def _tree(self, distances: Tensor, triplets: tuple[Tensor, ...], random: torch.Generator) -> Tensor:
        """The loss of triplets of rows of ``distances`` (N x ancestors).

        Value and gradient are found portion by portion: tens of thousands of triplets times hundreds of
        ancestors, kept by autograd for a dozen steps, would fill the memory.
        """
        count = len(triplets[0])
        if not count:
            return distances.sum() * 0
        leaf = distances.detach().requires_grad_()
        value, gradient = torch.zeros_like(leaf[0, 0]), torch.zeros_like(leaf)
        for one, two, three in zip(*(torch.split(rows, AT_ONCE) for rows in triplets), strict=True):
            with torch.enable_grad():
                near = leaf.index_select(0, one), leaf.index_select(0, two)
                part = self._hinges(*near, leaf.index_select(0, three), random) / count
            gradient += torch.autograd.grad(part, leaf)[0]
            value = value + part.detach()
        return with_gradient(value.detach(), distances, gradient)

    def _hinges(self, one: Tensor, two: Tensor, three: Tensor, random: torch.Generator) -> Tensor:
        """The sum over triplets, given the distances of their three to the ancestors (T x ancestors each)."""
        both = torch.maximum(one, two)
        near = draw_one(both / -self.tau, generator=random)
        far = draw_one(torch.maximum(both, three) / -self.tau, generator=random)
        gap = near - far
        terms = (
            F.relu((one * gap).sum(1) + self.margin)
            + F.relu((two * gap).sum(1) + self.margin)
            + F.relu(self.margin - (three * gap).sum(1))
        )
        return (terms * (near.detach().argmax(1) != far.detach().argmax(1))).sum()


def draw_one(logits: Tensor, *, generator: torch.Generator) -> Tensor:
    """A one in each row (N x M), drawn by the softmax of ``logits``, whose gradient it has.

    Example:
        >>> draw_one(torch.tensor([[0.0, 99.0]]), generator=torch.Generator())
        tensor([[0., 1.]])
    """
    luck = torch.rand(logits.shape, generator=generator, dtype=logits.dtype).to(logits.device)
    noise = luck.clamp_(min=torch.finfo(luck.dtype).tiny).log_().neg_().log_()
    noisy = logits - noise
    soft = noisy.softmax(dim=1)
    hard = torch.zeros_like(soft).scatter_(1, noisy.argmax(1, keepdim=True), 1.0)
    return hard + (soft - soft.detach()) if soft.requires_grad else hard


@torch.no_grad()
def related_triplets(
    likeness: Tensor, *, neighbours: int, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Anchors, a relative of each, and one that is none: ``count`` for each anchor with two relatives.

    Args:
        likeness: N x N; relatives are among each other's ``neighbours`` largest.
        neighbours: At most N are looked at.
        count: Drawn with replacement.
        generator: On the CPU.

    Example:
        >>> likeness = torch.block_diag(torch.ones(3, 3), torch.ones(3, 3))
        >>> anchor, relative, other = related_triplets(
        ...     likeness, neighbours=3, count=2, generator=torch.Generator()
        ... )
        >>> anchor.tolist(), (anchor // 3 == relative // 3).all(), (anchor // 3 != other // 3).all()
        ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5], tensor(True), tensor(True))
    """
    nearest = likeness.topk(min(neighbours, len(likeness)), dim=1).indices
    close = torch.zeros_like(likeness, dtype=torch.bool).scatter_(1, nearest, True)
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
    relative, other = (drawn.flatten().to(anchors.device) for drawn in draws)
    return anchors.repeat_interleave(count), relative, other
