"""Datasets, one file each; their cards, split plans, image stores and transforms."""

from __future__ import annotations

from typing import Any

from levelfield.data._dataset import Dataset, DatasetCard, Images
from levelfield.data._files import FileImages, ImageError, decode_image, read_image, to_tensor
from levelfield.registry import Registry

__all__ = [
    "Dataset",
    "DatasetCard",
    "FileImages",
    "ImageError",
    "Images",
    "decode_image",
    "load",
    "read_image",
    "register",
    "registry",
    "to_tensor",
]

registry: Registry[DatasetCard] = Registry("dataset", DatasetCard, package=__name__)
register = registry.register


def load(name: str, /, **options: Any) -> Dataset:
    """The dataset called ``name``, e.g. ``load("glyphs")`` or ``load("cub200", root="data")``."""
    dataset: Dataset = registry.create(name, **options)
    return dataset
