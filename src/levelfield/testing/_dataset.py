"""Contract of a dataset."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from levelfield import data
from levelfield.data import Dataset, Rows
from levelfield.testing._run import Checks, find_plugins, run_checks, watch_global_randomness


def check_dataset(
    dataset: str | Path | Dataset | Callable[..., Dataset], *, samples: int = 8, **options: Any
) -> None:
    """Check a dataset against its contract; print one line per check and raise AssertionError on problems.

    - Labels are int64 numbers from 0 to C-1, one per image, and every class has a name.
    - An image is a uint8 tensor C x H x W with one or three channels. Reading it again gives the same image,
      in memory that the caller may modify. Images can be sent to a worker process.
    - A selection of rows has exactly these rows, in this order.
    - Masks and roles have the length of the labels.
    - A dataset that is made again has the same fingerprint and labels.

    Args:
        dataset: Registered name, dataset, class or function that makes it, or path of your Python file.
        samples: Number of images to read.
        **options: Options of the dataset, such as ``root``.

    Example:
        >>> check_dataset("glyphs", samples=2)
        dataset glyphs
          ok: the name is the registered name
          ...
    """
    if isinstance(dataset, Dataset):
        _check_made(lambda: dataset, None, samples)
        return
    for plugin in find_plugins(data.registry, dataset):
        if plugin.entry is None:
            _check_made(partial(plugin.target, **options), None, samples)
        else:
            _check_made(partial(data.load, plugin.name, **options), plugin.name, samples)


def _check_made(make: Callable[[], Dataset], registered: str | None, samples: int) -> None:
    made = make()
    rows = np.unique(np.linspace(0, max(len(made) - 1, 0), num=samples).astype(np.int64))[: len(made)]

    def name(each: Dataset) -> Iterator[str]:
        if each.name != registered:
            yield f'its name is "{each.name}", but it is registered as "{registered}"'

    def images(each: Dataset) -> Iterator[str]:
        yield from _images(each, rows)

    def selection(each: Dataset) -> Iterator[str]:
        yield from _selection(each, rows)

    def made_again(each: Dataset) -> Iterator[str]:
        again = make()
        if again.fingerprint != each.fingerprint:
            yield "made again, it has a different fingerprint; hash its content, not paths or times"
        if not np.array_equal(again.labels, each.labels):
            yield "made again, it has different labels"

    checks: Checks[Dataset] = {
        **({} if registered is None else {"the name is the registered name": name}),
        "labels, class names and fingerprint are valid": _labels,
        "masks and roles fit the labels": _masks,
        "made again, it has the same fingerprint and labels": made_again,
    }
    if len(rows):
        checks = {
            **checks,
            "images are uint8, stable, independent copies and can be pickled": images,
            "a selection has the selected rows": selection,
        }
    run_checks(f"dataset {made.name}", made, checks)


def _labels(dataset: Dataset) -> Iterator[str]:
    labels = dataset.labels
    if labels.dtype != np.int64 or labels.ndim != 1:
        yield f"labels are {labels.dtype} of shape {labels.shape}, not a one-dimensional int64 array"
    elif len(labels) == 0:
        yield "it has no samples"
    elif labels.min() < 0 or labels.max() >= dataset.num_classes:
        ends = f"from {labels.min()} to {labels.max()}"
        yield f"labels are {ends}, but {dataset.num_classes} classes have a name"
    if len(set(dataset.class_names)) != len(dataset.class_names):
        yield "two classes have the same name"
    if not dataset.fingerprint:
        yield "it has no fingerprint"


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
                yield f"image {row} is different when it is read again"
                continue
            image.bitwise_not_()
            if not torch.equal(before, dataset.images.read(row)):
                yield f"changing image {row} in place changes the next read; return a copy"
                image.bitwise_not_()
    yield from problems
    if len(channels) > 1:
        yield "some images have one channel and some three; convert them to one kind"
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
        yield "a selection has different labels from its rows"
    if not torch.equal(part.images.read(0), dataset.images.read(int(order[0]))):
        yield "a selection has different images from its rows"
    try:
        part.images.read(len(order))
    except IndexError:
        return
    yield f"a selection of {len(order)} rows can be read past its end; raise IndexError"


def _masks(dataset: Dataset) -> Iterator[str]:
    for name, mask, kind in (
        ("is_test", dataset.is_test, np.bool_),
        ("is_validation", dataset.is_validation, np.bool_),
        ("roles", dataset.roles, np.int8),
    ):
        if mask is None:
            continue
        if mask.shape != dataset.labels.shape:
            yield f"{name} has shape {mask.shape}, but the labels have {dataset.labels.shape}"
        if mask.dtype != kind:
            yield f"{name} is {mask.dtype}, not {np.dtype(kind)}"
    if dataset.roles is not None and not np.isin(dataset.roles, [0, 1, 2, 3]).all():
        yield "roles has values other than 0, 1 (query), 2 (gallery) and 3 (both)"
