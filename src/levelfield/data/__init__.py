"""Datasets, one file each; their cards, split plans, image stores and transforms."""

from __future__ import annotations

from typing import Any

from levelfield.data._dataset import Dataset, DatasetCard, Images, Rows
from levelfield.registry import Registry

__all__ = ["Dataset", "DatasetCard", "Images", "Rows", "load", "register", "registry"]

registry: Registry[DatasetCard] = Registry("dataset", DatasetCard, package=__name__)
register = registry.register


def load(name: str, /, **options: Any) -> Dataset:
    """The dataset called ``name``, e.g. ``load("glyphs")`` or ``load("cub200", root="data")``."""
    dataset: Dataset = registry.create(name, **options)
    return dataset
