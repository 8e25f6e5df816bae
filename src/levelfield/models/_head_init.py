"""Where a head starts: at random, or at directions fitted to features of the training images.

All of this is computed in float64 and with fixed signs, so that the same features give the same head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from levelfield.errors import UsageError, did_you_mean
from levelfield.models._heads import Head
from levelfield.seeds import torch_generator

HeadInit = Literal["random", "pca", "whitening", "orthogonal"]

# Variances below this share of the largest count as this share: whitening would blow up noise.
WHITENING_FLOOR = 1e-4


@dataclass(frozen=True)
class Directions:
    """The principal directions of features, in float64.

    Attributes:
        mean: Of the features, F.
        axes: R x F, orthonormal, in falling order of variance; R is the rank of the centred features.
        variances: R, the variance along each axis.
    """

    mean: Tensor
    axes: Tensor
    variances: Tensor


def principal_directions(features: Tensor, *, at_most: int | None = None) -> Directions:
    """The principal directions of features (N x F), or the first ``at_most`` of them.

    The largest coordinate of each axis is positive: a direction is as good as its opposite, and every machine
    must give the same one.

    Example:
        >>> found = principal_directions(torch.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 5.0]]))
        >>> found.mean.tolist(), found.axes.tolist()
        ([0.0, 3.0], [[0.0, 1.0]])
    """
    exact = features.double()
    mean = exact.mean(0)
    centred = exact - mean
    values, vectors = torch.linalg.eigh(centred.T @ centred)  # in rising order
    values, axes = values.flip(0), vectors.flip(1).T
    noise = values[0].clamp(min=0) * torch.finfo(torch.float64).eps * max(features.shape)
    rank = int((values > noise).sum())
    rank = rank if at_most is None else min(rank, at_most)
    axes = axes[:rank].clone()  # not a view of all of them, which would stay in memory
    peaks = axes.gather(1, axes.abs().argmax(1, keepdim=True)) if rank else axes
    return Directions(mean, axes * peaks.sign(), values[:rank] / max(len(features) - 1, 1))


def start_head(head: Head, directions: Directions, *, init: str, seed: int = 0) -> None:
    """Give the projection of ``head`` its first weights; "random" leaves those that it has.

    - "pca": the directions of largest variance. The head then gives what PCA gives.
    - "whitening": the same, each divided by the deviation along it.
    - "orthogonal": directions at right angles to each other, drawn from ``seed``.

    The bias takes off the mean of the features. Where the features span fewer directions than the head is
    wide, random ones at right angles to them complete the basis; where the head is wider than the features,
    the whole basis is turned into the wider space, which changes no distance. An MLP head starts as the same
    linear function, by pairs of hidden units: x = relu(x) - relu(-x).

    Example:
        >>> from levelfield.models import create_head
        >>> features = torch.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 5.0]])
        >>> head = create_head("linear", num_features=2, size=1, normalize=False)
        >>> start_head(head, principal_directions(features), init="pca")
        >>> head(torch.tensor([[7.0, 4.0]])).item()
        1.0
    """
    if init not in get_args(HeadInit):
        raise UsageError(f'unknown head.init "{init}"{did_you_mean(init, get_args(HeadInit))}')
    if init == "random":
        return
    check_init(head, init)
    weight = _rows(directions, init=init, size=head.size, seed=seed)
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


def check_init(head: Head, init: str) -> None:
    """Refuse a start that the head cannot make."""
    if init == "random" or isinstance(head.projection, nn.Linear):
        return
    if isinstance(head.projection, nn.Identity):
        raise UsageError(
            f"head.init {init} needs a projection, and head.kind none has none; set head.init to random"
        )
    hidden = _mlp_layers(head)[0].out_features
    if hidden < 2 * head.size:
        raise UsageError(
            f"head.init {init} of an MLP head needs twice as many hidden units as head.size {head.size}, and "
            f"there are {hidden}; choose a smaller size, or head.init random"
        )


def _mlp_layers(head: Head) -> tuple[nn.Linear, nn.Linear]:
    """The two linear layers of an MLP head."""
    first, last = (layer for layer in head.projection.children() if isinstance(layer, nn.Linear))
    return first, last


def _rows(directions: Directions, *, init: str, size: int, seed: int) -> Tensor:
    """The weights (size x F) of a linear projection."""
    width = len(directions.mean)
    if init == "orthogonal":
        basis = _completed(directions.axes[:0], min(size, width), seed=seed)
    else:
        basis = _completed(directions.axes, min(size, width), seed=seed)
        if init == "whitening" and len(directions.variances):
            floor = directions.variances[0] * WHITENING_FLOOR
            variances = torch.full((len(basis),), float(floor), dtype=torch.float64)
            known = min(len(basis), len(directions.variances))
            variances[:known] = directions.variances[:known].clamp(min=float(floor))
            basis = basis / variances.sqrt()[:, None]
    if size > width:
        turn = _completed(basis.new_zeros(0, size), width, seed=seed)
        basis = turn.T @ basis
    return basis


def _completed(axes: Tensor, count: int, *, seed: int) -> Tensor:
    """The first ``count`` of ``axes`` (R x F), with random rows at right angles where there are too few."""
    axes = axes[:count]
    lacking = count - len(axes)
    if not lacking:
        return axes
    generator = torch_generator("head directions", seed)
    drawn = torch.randn(lacking, axes.shape[1], generator=generator, dtype=torch.float64)
    orthonormal, triangle = torch.linalg.qr(torch.cat([axes, drawn]).T)
    fresh = orthonormal.T[len(axes) :] * triangle.diagonal()[len(axes) :].sign()[:, None]
    return torch.cat([axes, fresh])
