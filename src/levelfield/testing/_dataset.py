"""The contract of a dataset."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from levelfield import data
from levelfield.data import Dataset, Rows
from levelfield.testing._report import raise_problems, watch_global_randomness


def check_dataset(
    dataset: str | Dataset | Callable[..., Dataset], *, samples: int = 8, **options: Any
) -> None:
    """Check a dataset against the contract; AssertionError with everything that is wrong.

    Labels are int64 class ids in 0..C-1, one per image, and every class has a name. An image is a uint8
    tensor C x H x W with one or three channels, the same each time it is read, and the caller's own. A
    selection of rows holds just those, in that order. Masks and roles are as long as the labels. Made again,
    the dataset has the same fingerprint and the same labels. Images can be sent to a worker process.

    Args:
        dataset: A registered name, the dataset, or what makes it.
        samples: How many images to read.
        **options: Handed to the dataset, e.g. ``root``.

    Example:
        >>> check_dataset("glyphs", samples=2)
    """

    def make() -> Dataset:
        if isinstance(dataset, str):
            return data.load(dataset, **options)
        return dataset if isinstance(dataset, Dataset) else dataset(**options)

    made = make()
    rows = np.unique(np.linspace(0, max(len(made) - 1, 0), num=samples).astype(np.int64))[: len(made)]

    def name(each: Dataset) -> Iterator[str]:
        if isinstance(dataset, str) and each.name != dataset:
            yield f'it calls itself "{each.name}", but is registered as "{dataset}"'

    def images(each: Dataset) -> Iterator[str]:
        yield from _images(each, rows)

    def selection(each: Dataset) -> Iterator[str]:
        yield from _selection(each, rows)

    def made_again(each: Dataset) -> Iterator[str]:
        again = make()
        if again.fingerprint != each.fingerprint:
            yield "made again, it has another fingerprint; hash its content, not where or when it was made"
        if not np.array_equal(again.labels, each.labels):
            yield "made again, it has other labels"

    checks = [name, _labels, _masks, made_again, *([images, selection] if len(rows) else [])]
    raise_problems(f"dataset {made.name}", made, checks)


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


def _images(dataset: Dataset, rows: Rows) -> Iterator[str]:
    problems: list[str] = []
    channels = set()
    with watch_global_randomness(problems):
        for row in rows.tolist():
            image = dataset.images.read(row)
            if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3):
                yield f"image {row} is {image.dtype} of shape {tuple(image.shape)}, not uint8 C x H x W"
                continue
            channels.add(image.shape[0])
            before = image.clone()
            if not torch.equal(before, dataset.images.read(row)):
                yield f"image {row} is another one when read again"
                continue
            image.bitwise_not_()
            if not torch.equal(before, dataset.images.read(row)):
                yield f"changing image {row} changes what is read next; return a copy"
                image.bitwise_not_()
    yield from problems
    if len(channels) > 1:
        yield "some images are grey and some are in colour; convert them to one kind"
    try:
        pickle.dumps(dataset.images)
    except Exception as error:
        yield f"its images cannot be sent to a worker process ({type(error).__name__}: {error})"


def _selection(dataset: Dataset, rows: Rows) -> Iterator[str]:
    order = rows[::-1].copy()
    part = dataset.select(order)
    if len(part) != len(order) or len(part.images) != len(order):
        yield f"a selection of {len(order)} rows has {len(part)} labels and {len(part.images)} images"
        return
    if not np.array_equal(part.labels, dataset.labels[order]):
        yield "a selection has other labels than the rows it was made of"
    if not torch.equal(part.images.read(0), dataset.images.read(int(order[0]))):
        yield "a selection has other images than the rows it was made of"
    try:
        part.images.read(len(order))
    except IndexError:
        return
    yield f"a selection of {len(order)} rows can be read beyond its end; raise IndexError"


def _masks(dataset: Dataset) -> Iterator[str]:
    for name, mask, kind in (
        ("is_test", dataset.is_test, np.bool_),
        ("is_validation", dataset.is_validation, np.bool_),
        ("roles", dataset.roles, np.int8),
    ):
        if mask is None:
            continue
        if mask.shape != dataset.labels.shape:
            yield f"{name} has shape {mask.shape}, the labels {dataset.labels.shape}"
        if mask.dtype != kind:
            yield f"{name} is {mask.dtype}, not {np.dtype(kind)}"
    if dataset.roles is not None and not np.isin(dataset.roles, [0, 1, 2, 3]).all():
        yield "roles holds other values than 0, 1 (query), 2 (gallery) and 3 (both)"
