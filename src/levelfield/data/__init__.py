"""Datasets with their cards, split plans, image stores and transforms.

A custom dataset is a function that returns a :class:`Dataset` and is registered with :data:`register`. Build
the dataset with :func:`from_arrays` or :func:`from_files`. For other kinds of images, write a class with the
three methods of :class:`Images`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from levelfield.core.files import cache_directory
from levelfield.core.lazy import lazy_exports
from levelfield.core.registry import Registry
from levelfield.data._dataset import GALLERY, QUERY, Dataset, DatasetCard, Download, Images, Rows
from levelfield.data._image_files import FileImages, ImageError, decode_image, read_image, to_tensor
from levelfield.data._listing import from_files
from levelfield.data._memory import MemoryImages, from_arrays
from levelfield.records import PluginIdentity

__all__ = [
    "GALLERY",
    "QUERY",
    "Dataset",
    "DatasetCard",
    "Download",
    "FileImages",
    "ImageError",
    "Images",
    "MemoryImages",
    "Rows",
    "cache_directory",
    "decode_image",
    "from_arrays",
    "from_files",
    "load",
    "read_image",
    "register",
    "registry",
    "to_tensor",
]

registry = Registry("dataset", DatasetCard, package="levelfield.data.datasets")
register = registry.register

_PACKAGES = ("datasets", "splits", "store", "transforms")
__getattr__, __dir__ = lazy_exports(
    __name__, {f"levelfield.data.{package}": (package,) for package in _PACKAGES}
)


def load(name: str, /, **options: Any) -> Dataset:
    """Return the dataset called ``name``, e.g. ``load("glyphs")`` or ``load("cub200", root="data")``."""
    dataset: Dataset = registry.create(name, **options)
    kept = {option: value for option, value in options.items() if option != "root"}  # a local path
    return replace(dataset, made_from=PluginIdentity(name=name, options=kept, source=registry[name].source))
