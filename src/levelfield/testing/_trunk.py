"""Contract of a trunk."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from levelfield import models
from levelfield.models import Trunk
from levelfield.testing._run import CheckedPlugin, Checks, find_plugins, run_checks, watch_global_randomness

TOLERANCE = 1e-4


@dataclass(frozen=True)
class _Trunk:
    name: str | None  # None if it is not registered
    make: Callable[[int], Trunk]  # takes a seed
    images: Tensor


def check_trunk(
    trunk: str | Path | Callable[..., Trunk], *, in_channels: int = 3, image_size: int = 64, **options: Any
) -> None:
    """Check a trunk against its contract; print one line per check and raise AssertionError on problems.

    - Features are finite and have the declared shape. They are the same for ``uint8`` images and for floats
      from 0 to 1, and, in evaluation mode, for a single image and in a batch.
    - The weights depend only on the seed.
    - All trainable parameters get gradients.
    - Loading the state_dict and copying the trunk preserve the features.

    Args:
        trunk: Registered name, class or function that makes the trunk, or path of your Python file.
        in_channels: Number of image channels.
        image_size: Side length of the images in pixels.
        **options: Options of the trunk.

    Example:
        >>> check_trunk("conv4", image_size=32, width=8)
        trunk conv4
          ok: it is a Trunk with its registered name
          ...
    """
    for plugin in find_plugins(models.registry, trunk):
        _check_plugin(plugin, options, in_channels=in_channels, image_size=image_size)


def _check_plugin(
    plugin: CheckedPlugin[Any], options: dict[str, Any], *, in_channels: int, image_size: int
) -> None:
    generator = torch.Generator().manual_seed(0)
    shape = (3, in_channels, image_size, image_size)

    def make(seed: int) -> Trunk:
        if plugin.entry is not None:
            return models.create_trunk(plugin.name, in_channels=in_channels, seed=seed, **options)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made: Trunk = plugin.target(in_channels=in_channels, **options)
            return made

    subject = _Trunk(
        name=None if plugin.entry is None else plugin.name,
        make=make,
        images=torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator),
    )
    checks: Checks[_Trunk] = {
        "it is a Trunk with its registered name": _kind,
        "features have the declared shape and are finite and reproducible": _features,
        "the weights depend only on the seed": _weights,
        "all trainable parameters get gradients": _learning,
        "loading the state_dict and copying preserve the features": _state,
    }
    run_checks(f"trunk {plugin.name}", subject, checks)


def _kind(subject: _Trunk) -> Iterator[str]:
    trunk: object = subject.make(0)
    if not isinstance(trunk, Trunk):
        yield f"it is a {type(trunk).__name__}, not a levelfield.models.Trunk"
    elif subject.name is not None and trunk.name != subject.name:
        yield f'its name is "{trunk.name}", but it is registered as "{subject.name}"'


def _features(subject: _Trunk) -> Iterator[str]:
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
        declared = "maps, B x F x h x w" if trunk.spatial else "vectors, B x F"
        yield f"spatial={trunk.spatial} declares {declared}, but the shape is {tuple(features.shape)}"
    if features.shape[:2] != (len(subject.images), trunk.num_features):
        yield f"it declares {trunk.num_features} features, but they have shape {tuple(features.shape)}"
    if not torch.isfinite(features).all():
        yield "its features are not finite"
        return
    if not torch.equal(features, again):
        yield "in evaluation mode the same images give different features"
    size = TOLERANCE * max(1.0, features.abs().amax().item())
    if not torch.allclose(features, from_floats, atol=size):
        yield "uint8 images and the same images as floats from 0 to 1 give different features"
    if not torch.allclose(features[:1], alone, atol=size):
        yield "in evaluation mode the features of an image depend on the other images of the batch"


def _weights(subject: _Trunk) -> Iterator[str]:
    problems: list[str] = []
    with watch_global_randomness(problems):
        one, same, other = (subject.make(seed).state_dict() for seed in (0, 0, 1))
    yield from problems
    if any(not torch.equal(one[key], same[key]) for key in one):
        yield "the same seed gives different weights"
    if one and all(torch.equal(one[key], other[key]) for key in one):
        yield "a different seed gives the same weights"


def _learning(subject: _Trunk) -> Iterator[str]:
    trunk = subject.make(0)
    trunk(subject.images).square().mean().backward()
    for name, parameter in trunk.named_parameters():
        if parameter.requires_grad and parameter.grad is None:
            yield f"parameter {name} gets no gradient; remove it, or set requires_grad=False"


def _state(subject: _Trunk) -> Iterator[str]:
    first, second = subject.make(0).eval(), subject.make(1).eval()
    second.load_state_dict(first.state_dict())
    with torch.inference_mode():
        expected = first(subject.images)
        if not torch.equal(expected, second(subject.images)):
            yield "a trunk with a loaded state_dict gives different features"
        if not torch.equal(expected, copy.deepcopy(first)(subject.images)):
            yield "a copy gives different features"
