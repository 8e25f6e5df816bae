"""A multilayer perceptron for toy data."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from pydantic import Field
from torch import nn

from levelfield.models import register
from levelfield.models._trunk import InputRecipe, Trunk, positive
from levelfield.options import Size


@register("mlp")
def mlp(
    *,
    in_channels: Size = 2,
    image_size: Annotated[int, Field(le=256)] = 1,
    width: Annotated[int, Field(le=16_384)] = 64,
    depth: Annotated[int, Field(le=100)] = 2,
) -> Trunk:
    """``depth`` fully connected layers with ReLU on vectors, or on small images laid out as vectors.

    Args:
        in_channels: The length of the vectors, or the channels of the images.
        image_size: The side of the images; 1 for vectors.
        width: How many units each layer has.
        depth: How many layers there are.

    Example:
        >>> import torch
        >>> mlp(in_channels=2)(torch.zeros(5, 2)).shape
        torch.Size([5, 64])
    """
    widths = [positive("mlp", "image_size", image_size) ** 2 * in_channels]
    widths += [positive("mlp", "width", width)] * positive("mlp", "depth", depth)
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU(inplace=True)]
    # Vectors have a scale of their own: they are taken as they come.
    identity = InputRecipe(mean=(0.0,), std=(1.0,))
    return Trunk(nn.Sequential(*layers), name="mlp", num_features=width, spatial=False, inputs=identity)
