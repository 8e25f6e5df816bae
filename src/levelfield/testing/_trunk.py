"""The contract of a trunk."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from levelfield import models
from levelfield.models import Trunk
from levelfield.testing._report import raise_problems, watch_global_randomness

TOLERANCE = 1e-4


@dataclass(frozen=True)
class _Trunk:
    name: str | None  # None: not registered
    make: Callable[[int], Trunk]  # takes a seed
    images: Tensor


def check_trunk(
    trunk: str | Callable[..., Trunk], *, in_channels: int = 3, image_size: int = 64, **options: Any
) -> None:
    """Check a trunk against the contract; AssertionError with everything that is wrong.

    It gives features of the width and the rank that it announces, finite ones, the same for ``uint8`` images
    as for floats in 0..1, and in evaluation the same for an image alone as in a batch. The seed alone decides
    its weights. Its parameters get gradients, its state can be saved and loaded, and it can be copied.

    Args:
        trunk: A registered name, or what makes the trunk.
        in_channels: How many channels the images have.
        image_size: Their side.
        **options: Handed to the trunk.

    Example:
        >>> check_trunk("conv4", image_size=32, width=8)
    """
    generator = torch.Generator().manual_seed(0)
    shape = (3, in_channels, image_size, image_size)

    def make(seed: int) -> Trunk:
        if isinstance(trunk, str):
            return models.create_trunk(trunk, in_channels=in_channels, seed=seed, **options)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return trunk(in_channels=in_channels, **options)

    subject = _Trunk(
        name=trunk if isinstance(trunk, str) else None,
        make=make,
        images=torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator),
    )
    name = subject.name or getattr(trunk, "__name__", str(trunk))
    raise_problems(f"trunk {name}", subject, [_kind, _features, _weights, _learning, _state])


def _kind(subject: _Trunk) -> Iterator[str]:
    """It is a Trunk, under its registered name."""
    trunk: object = subject.make(0)
    if not isinstance(trunk, Trunk):
        yield f"it is a {type(trunk).__name__}, not a levelfield.models.Trunk"
    elif subject.name is not None and trunk.name != subject.name:
        yield f'it calls itself "{trunk.name}", but is registered as "{subject.name}"'


def _features(subject: _Trunk) -> Iterator[str]:
    """Width, rank, finite values; images of both kinds; no trace of the other images of a batch."""
    trunk = subject.make(0).eval()
    before = subject.images.clone()
    with torch.inference_mode():
        features = trunk(subject.images)
        from_floats = trunk(subject.images.float() / 255)
        alone = trunk(subject.images[:1])
        again = trunk(subject.images)
    if not torch.equal(before, subject.images):
        yield "it changes the images in place"
    if features.ndim != (4 if trunk.spatial else 2):
        announced = "maps, B x F x h x w" if trunk.spatial else "vectors, B x F"
        yield f"spatial={trunk.spatial} announces {announced}, but it gives shape {tuple(features.shape)}"
    if features.shape[:2] != (len(subject.images), trunk.num_features):
        yield f"it announces {trunk.num_features} features, but gives shape {tuple(features.shape)}"
    if not torch.isfinite(features).all():
        yield "its features are not finite"
        return
    if not torch.equal(features, again):
        yield "in evaluation it gives other features for the same images"
    size = TOLERANCE * max(1.0, features.abs().amax().item())
    if not torch.allclose(features, from_floats, atol=size):
        yield "it gives other features for uint8 images than for the same images as floats in 0..1"
    if not torch.allclose(features[:1], alone, atol=size):
        yield "in evaluation an image's features depend on the other images of its batch"


def _weights(subject: _Trunk) -> Iterator[str]:
    """The seed alone decides the weights."""
    problems: list[str] = []
    with watch_global_randomness(problems):
        one, same, other = (subject.make(seed).state_dict() for seed in (0, 0, 1))
    yield from problems
    if any(not torch.equal(one[key], same[key]) for key in one):
        yield "the same seed gives other weights"
    if one and all(torch.equal(one[key], other[key]) for key in one):
        yield "another seed gives the same weights"


def _learning(subject: _Trunk) -> Iterator[str]:
    """Every parameter that learns gets a gradient."""
    trunk = subject.make(0)
    trunk(subject.images).square().mean().backward()
    for name, parameter in trunk.named_parameters():
        if parameter.requires_grad and parameter.grad is None:
            yield f"parameter {name} gets no gradient; remove it, or set requires_grad=False"


def _state(subject: _Trunk) -> Iterator[str]:
    """A loaded or copied trunk gives the features of the first."""
    first, second = subject.make(0).eval(), subject.make(1).eval()
    second.load_state_dict(first.state_dict())
    with torch.inference_mode():
        expected = first(subject.images)
        if not torch.equal(expected, second(subject.images)):
            yield "a trunk that loads the state_dict of another gives other features"
        if not torch.equal(expected, copy.deepcopy(first)(subject.images)):
            yield "a copy gives other features"
