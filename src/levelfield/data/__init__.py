"""Datasets, one file each; their cards, split plans, image stores and transforms.

A dataset of your own is a function that returns a :class:`Dataset`, most easily by :func:`from_arrays` or
:func:`from_files`, and is registered by :data:`register`. Images of another kind need a class of their own
with the three methods of :class:`Images`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from levelfield.data._dataset import GALLERY, QUERY, Dataset, DatasetCard, Download, Images, Rows
from levelfield.data._files import FileImages, ImageError, decode_image, read_image, to_tensor
from levelfield.data._listing import from_files
from levelfield.data._memory import MemoryImages, from_arrays
from levelfield.files import cache_folder
from levelfield.records import PluginIdentity
from levelfield.registry import Registry

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
    "cache_folder",
    "decode_image",
    "from_arrays",
    "from_files",
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
    kept = {option: value for option, value in options.items() if option != "root"}  # where is not what
    return replace(dataset, made_from=PluginIdentity(name=name, options=kept, source=registry[name].source))
