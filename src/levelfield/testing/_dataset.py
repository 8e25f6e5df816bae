"""The contract of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from levelfield import data
from levelfield.data import Dataset
from levelfield.testing._report import raise_problems, watch_global_randomness


def check_dataset(
    dataset: str | Dataset | Callable[..., Dataset], *, samples: int = 8, **options: Any
) -> None:
    """Check a dataset against the contract; AssertionError with everything that is wrong.

    Labels are int64 class ids in 0..C-1, one per image, and every class has a name. An image is a uint8
    tensor C x H x W with one or three channels, the same each time it is read. A selection of rows holds just
    those, in that order. Masks and roles are as long as the labels.

    Args:
        dataset: A registered name, the dataset, or what makes it.
        samples: How many images to read.
        **options: Handed to the dataset, e.g. ``root``.

    Example:
        >>> check_dataset("glyphs", samples=2)
    """
    if isinstance(dataset, str):
        made = data.load(dataset, **options)
    else:
        made = dataset if isinstance(dataset, Dataset) else dataset(**options)
    rows = np.unique(np.linspace(0, len(made) - 1, num=samples).astype(np.int64))

    def images(each: Dataset) -> Iterator[str]:
        yield from _images(each, rows)

    def selection(each: Dataset) -> Iterator[str]:
        yield from _selection(each, rows)

    raise_problems(f"dataset {made.name}", made, [_labels, images, selection, _masks])


def _labels(dataset: Dataset) -> Iterator[str]:
    labels = dataset.labels
    if labels.dtype != np.int64 or labels.ndim != 1:
        yield f"labels are {labels.dtype} of shape {labels.shape}, not a list of int64"
    elif len(labels) == 0:
        yield "there are no samples"
    elif labels.min() < 0 or labels.max() >= dataset.num_classes:
        ends = f"from {labels.min()} to {labels.max()}"
        yield f"labels run {ends}, but {dataset.num_classes} classes have a name"
    if len(set(dataset.class_names)) != len(dataset.class_names):
        yield "two classes have the same name"
    if not dataset.fingerprint:
        yield "there is no fingerprint"


def _images(dataset: Dataset, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[str]:
    problems: list[str] = []
    with watch_global_randomness(problems):
        for row in rows.tolist():
            image = dataset.images.read(row)
            if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3):
                yield f"image {row} is {image.dtype} of shape {tuple(image.shape)}, not uint8 C x H x W"
            elif not torch.equal(image, dataset.images.read(row)):
                yield f"image {row} is another one when read again"
    yield from problems


def _selection(dataset: Dataset, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[str]:
    order = rows[::-1].copy()
    part = dataset.select(order)
    if len(part) != len(order) or len(part.images) != len(order):
        yield f"a selection of {len(order)} rows has {len(part)} labels and {len(part.images)} images"
        return
    if not np.array_equal(part.labels, dataset.labels[order]):
        yield "a selection has other labels than the rows it was made of"
    if not torch.equal(part.images.read(0), dataset.images.read(int(order[0]))):
        yield "a selection has other images than the rows it was made of"


def _masks(dataset: Dataset) -> Iterator[str]:
    for name, mask in (("is_test", dataset.is_test), ("roles", dataset.roles)):
        if mask is not None and mask.shape != dataset.labels.shape:
            yield f"{name} has shape {mask.shape}, the labels {dataset.labels.shape}"
