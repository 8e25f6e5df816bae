"""Toy data of Figures 6 and 11, and the training of many small networks on them at once.

"Revisiting Training Strategies and Generalization Performance in Deep Metric Learning", section E of the
supplement: two layers of 30 neurons, 2-D in and out, normalized onto the circle; 15 samples per line; 200
iterations, batches of 24, learning rate 0.03, contrastive loss with margin 0.1. The paper gives neither the
positions of the lines nor the optimizer; this module defines the positions and uses Adam.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield import samplers
from levelfield.core.seeds import torch_generator
from levelfield.miners import sample_columns

SAMPLES = 15
LAYERS = (2, 30, 30, 2)
ITERATIONS = 200
SAMPLES_PER_CLASS = 6
LEARNING_RATE = 0.03
MARGIN = 0.1

Point2D = tuple[float, float]


@dataclass(frozen=True)
class ToyLines:
    """Toy dataset of training and test lines, each classes x samples x 2."""

    name: str
    title: str
    train: Tensor
    test: Tensor


def diagonal_lines() -> ToyLines:
    """Return the data of Figure 6: train on the four diagonals, test on the half axes between them."""
    corners = [(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0)]
    axes = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)]

    def outward(ends: Sequence[Point2D]) -> Tensor:
        return torch.stack([_line((0.3 * x, 0.3 * y), (x, y)) for x, y in ends])

    return ToyLines("diagonal", "Diagonal lines (Figure 6)", outward(corners), outward(axes))


def vertical_lines() -> ToyLines:
    """Return the data of Figure 11: train on lines that differ in x, test on two that differ in y."""
    train = torch.stack([_line((x, -1.0), (x, 1.0)) for x in (-0.75, -0.25, 0.25, 0.75)])
    test = torch.stack([_line((0.0, -1.0), (0.0, -0.2)), _line((0.0, 0.2), (0.0, 1.0))])
    return ToyLines("vertical", "Vertical lines (Figure 11)", train, test)


def _line(start: Point2D, end: Point2D) -> Tensor:
    share = torch.linspace(0.0, 1.0, SAMPLES)[:, None]
    return (1 - share) * torch.tensor(start) + share * torch.tensor(end)


@dataclass(frozen=True)
class Networks:
    """S small networks, one per seed: weights (S x in x out) and biases (S x 1 x out)."""

    weights: list[Tensor]
    biases: list[Tensor]

    def __call__(self, points: Tensor) -> Tensor:
        """Return unit embeddings (S x n x 2) of points (S x n x 2, or n x 2 for all networks)."""
        hidden = points
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.matmul(hidden, weight) + bias
            if layer < len(self.weights) - 1:
                hidden = torch.relu(hidden)
        return F.normalize(hidden, dim=-1)


def init_networks(seeds: Sequence[int]) -> Networks:
    """Return untrained networks, one per seed, with uniform initialization in +-1/sqrt(inputs)."""
    generators = [torch_generator("toy-lines", "start", seed) for seed in seeds]
    weights, biases = [], []
    for inputs, outputs in pairwise(LAYERS):
        numbers = torch.stack([torch.rand(inputs + 1, outputs, generator=each) for each in generators])
        numbers = (2 * numbers - 1) / inputs**0.5
        weights.append(numbers[:, :-1].clone().requires_grad_())
        biases.append(numbers[:, -1:].clone().requires_grad_())
    return Networks(weights, biases)


def train(toy: ToyLines, *, p_switch: float, seeds: Sequence[int]) -> Networks:
    """Train one network per seed; initialization and batches are the same for any ``p_switch``.

    The networks are independent: the loss is the sum of their losses, and Adam updates each weight
    separately.
    """
    points = toy.train.flatten(0, 1)
    labels = torch.arange(len(toy.train)).repeat_interleave(SAMPLES)
    size = SAMPLES_PER_CLASS * len(toy.train)
    networks = init_networks(seeds)
    optimizer = torch.optim.Adam([*networks.weights, *networks.biases], lr=LEARNING_RATE)
    random = torch_generator("toy-lines", "switches", *seeds)
    streams = [
        samplers.create(
            "class_balanced", labels.numpy(), batch_size=size, seed=seed, samples_per_class=SAMPLES_PER_CLASS
        ).epoch(0, ITERATIONS)
        for seed in seeds
    ]
    for drawn in zip(*streams, strict=True):
        rows = torch.from_numpy(np.stack(drawn))
        optimizer.zero_grad()
        value = contrastive_losses(
            networks(points[rows]), labels[rows], p_switch=p_switch, random=random
        ).sum()
        torch.autograd.backward(value)
        optimizer.step()
    return networks


def contrastive_losses(
    embeddings: Tensor, labels: Tensor, *, p_switch: float, random: torch.Generator
) -> Tensor:
    """Return the loss of each network (S): Equation 1 over all pairs of its batch, with rho-regularization.

    Args:
        embeddings: Embeddings (S x b x 2).
        labels: Classes (S x b).
        p_switch: Probability that the other sample of a negative pair is replaced by a random positive.
        random: Generator of the switches.
    """
    squared = (embeddings[:, :, None] - embeddings[:, None]).square().sum(dim=-1)
    distance = squared.clamp(min=1e-12).sqrt()
    same = labels[:, :, None] == labels[:, None]
    positive = same & ~torch.eye(labels.shape[1], dtype=torch.bool)
    negative = (~same).to(distance.dtype)
    if p_switch > 0:
        flat = positive.flatten(0, 1)
        uniform = torch.rand(2, *flat.shape, generator=random)
        switched = (uniform[0] < p_switch).view_as(same) & ~same & positive.any(dim=2, keepdim=True)
        chosen = sample_columns(flat, uniform[1]).view_as(same)
        negative = negative.masked_fill(switched, 0.0).scatter_add(2, chosen, switched.to(distance.dtype))
    pull = (distance * positive).sum(dim=(1, 2))
    push = (torch.relu(MARGIN - distance) * negative).sum(dim=(1, 2))
    return (pull + push) / labels.shape[1]
