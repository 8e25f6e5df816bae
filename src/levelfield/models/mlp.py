"""A multilayer perceptron for toy data."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from pydantic import Field
from torch import nn

from levelfield.core.options import Size
from levelfield.models import register
from levelfield.models._trunk import InputRecipe, Trunk, check_positive


@register("mlp")
def mlp(
    *,
    in_channels: Size = 2,
    image_size: Annotated[int, Field(le=256)] = 1,
    width: Annotated[int, Field(le=16_384)] = 64,
    depth: Annotated[int, Field(le=100)] = 2,
) -> Trunk:
    """Multilayer perceptron of ``depth`` layers with ReLU, on vectors or small flattened images.

    Args:
        in_channels: Length of the vectors, or number of image channels.
        image_size: Side of the images, in pixels; 1 for vectors.
        width: Units per layer.
        depth: Number of layers.

    Example:
        >>> import torch
        >>> mlp(in_channels=2)(torch.zeros(5, 2)).shape
        torch.Size([5, 64])
    """
    widths = [check_positive("mlp", "image_size", image_size) ** 2 * in_channels]
    widths += [check_positive("mlp", "width", width)] * check_positive("mlp", "depth", depth)
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU(inplace=True)]
    # Vectors are not normalized.
    identity = InputRecipe(mean=(0.0,), std=(1.0,))
    return Trunk(nn.Sequential(*layers), name="mlp", num_features=width, spatial=False, inputs=identity)
