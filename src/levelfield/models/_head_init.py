"""Initialization of heads: random, or fitted to features of the training images.

Everything is computed in float64 and with fixed signs, so that the same features give the same head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.seeds import torch_generator
from levelfield.models._heads import Head

HeadInit = Literal["random", "pca", "whitening", "orthogonal"]

# Smallest variance as a fraction of the largest; without it whitening would amplify noise.
WHITENING_FLOOR = 1e-4


@dataclass(frozen=True)
class PrincipalDirections:
    """Principal directions of features, in float64.

    Attributes:
        mean: Mean of the features, F.
        axes: R x F, orthonormal, in descending order of variance; R is the rank of the centered features.
        variances: Variance along each axis, R.
    """

    mean: Tensor
    axes: Tensor
    variances: Tensor


def principal_directions(features: Tensor, *, at_most: int | None = None) -> PrincipalDirections:
    """Return the principal directions of features (N x F), or the first ``at_most`` of them.

    The largest coordinate of each axis is positive, so that the sign is the same on every machine.

    Example:
        >>> found = principal_directions(torch.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 5.0]]))
        >>> found.mean.tolist(), found.axes.tolist()
        ([0.0, 3.0], [[0.0, 1.0]])
    """
    exact = features.double()
    mean = exact.mean(0)
    centered = exact - mean
    values, vectors = torch.linalg.eigh(centered.T @ centered)  # in ascending order
    values, axes = values.flip(0), vectors.flip(1).T
    noise = values[0].clamp(min=0) * torch.finfo(torch.float64).eps * max(features.shape)
    rank = int((values > noise).sum())
    rank = rank if at_most is None else min(rank, at_most)
    axes = axes[:rank].clone()  # a view would keep all axes in memory
    peaks = axes.gather(1, axes.abs().argmax(1, keepdim=True)) if rank else axes
    return PrincipalDirections(mean, axes * peaks.sign(), values[:rank] / max(len(features) - 1, 1))


def init_head(head: Head, directions: PrincipalDirections, *, init: str, seed: int = 0) -> None:
    """Initialize the projection of ``head``; "random" keeps its current weights.

    - "pca": the directions of largest variance; the head then computes the PCA.
    - "whitening": the same, each divided by the standard deviation along it.
    - "orthogonal": random orthogonal directions, drawn from ``seed``.

    The bias subtracts the mean of the features. If the features span fewer directions than the head is wide,
    random orthogonal directions complete the basis. If the head is wider than the features, the basis is
    rotated into the wider space, which keeps all distances. An MLP head starts as the same linear function,
    by pairs of hidden units: x = relu(x) - relu(-x).

    Example:
        >>> from levelfield.models import create_head
        >>> features = torch.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 5.0]])
        >>> head = create_head("linear", num_features=2, size=1, normalize=False)
        >>> init_head(head, principal_directions(features), init="pca")
        >>> head(torch.tensor([[7.0, 4.0]])).item()
        1.0
    """
    if init not in get_args(HeadInit):
        raise UsageError(f'unknown head.init "{init}"{did_you_mean(init, get_args(HeadInit))}')
    if init == "random":
        return
    check_head_init(head, init)
    weight = _projection_weight(directions, init=init, size=head.size, seed=seed)
    bias = -weight @ directions.mean
    with torch.no_grad():
        if isinstance(head.projection, nn.Linear):
            head.projection.weight.copy_(weight)
            head.projection.bias.copy_(bias)
            return
        first, last = _mlp_layers(head)
        size = head.size
        first.weight[: 2 * size].copy_(torch.cat([weight, -weight]))
        first.bias[: 2 * size].copy_(torch.cat([bias, -bias]))
        last.weight.zero_()
        last.weight[:, :size].fill_diagonal_(1.0)
        last.weight[:, size : 2 * size].fill_diagonal_(-1.0)
        last.bias.zero_()


def check_head_init(head: Head, init: str) -> None:
    """Raise UsageError if ``init`` is not possible for ``head``."""
    if init == "random" or isinstance(head.projection, nn.Linear):
        return
    if isinstance(head.projection, nn.Identity):
        raise UsageError(
            f"head.init {init} needs a projection, but head.kind is none; set head.init to random"
        )
    hidden = _mlp_layers(head)[0].out_features
    if hidden < 2 * head.size:
        raise UsageError(
            f"head.init {init} of an MLP head needs twice as many hidden units as head.size {head.size}, but "
            f"there are {hidden}; set a smaller head.size, or set head.init to random"
        )


def _mlp_layers(head: Head) -> tuple[nn.Linear, nn.Linear]:
    """Return the two linear layers of an MLP head."""
    first, last = (layer for layer in head.projection.children() if isinstance(layer, nn.Linear))
    return first, last


def _projection_weight(directions: PrincipalDirections, *, init: str, size: int, seed: int) -> Tensor:
    """Return the weights (size x F) of a linear projection."""
    width = len(directions.mean)
    if init == "orthogonal":
        basis = _complete_basis(directions.axes[:0], min(size, width), seed=seed)
    else:
        basis = _complete_basis(directions.axes, min(size, width), seed=seed)
        if init == "whitening" and len(directions.variances):
            floor = directions.variances[0] * WHITENING_FLOOR
            variances = torch.full((len(basis),), float(floor), dtype=torch.float64)
            known = min(len(basis), len(directions.variances))
            variances[:known] = directions.variances[:known].clamp(min=float(floor))
            basis = basis / variances.sqrt()[:, None]
    if size > width:
        rotation = _complete_basis(basis.new_zeros(0, size), width, seed=seed)
        basis = rotation.T @ basis
    return basis


def _complete_basis(axes: Tensor, count: int, *, seed: int) -> Tensor:
    """Return the first ``count`` of ``axes`` (R x F), completed with random orthogonal rows."""
    axes = axes[:count]
    lacking = count - len(axes)
    if not lacking:
        return axes
    generator = torch_generator("head directions", seed)
    drawn = torch.randn(lacking, axes.shape[1], generator=generator, dtype=torch.float64)
    orthonormal, triangle = torch.linalg.qr(torch.cat([axes, drawn]).T)
    fresh = orthonormal.T[len(axes) :] * triangle.diagonal()[len(axes) :].sign()[:, None]
    return torch.cat([axes, fresh])
