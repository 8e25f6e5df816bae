"""Any labelled dataset of torchvision, as ``torchvision:NAME``."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from levelfield.data import registry
from levelfield.data._dataset import Dataset, DatasetCard, Rows
from levelfield.data._pictures import PictureImages, fingerprint
from levelfield.errors import RunError, UsageError, did_you_mean
from levelfield.registry import Entry


@registry.family("torchvision")
def resolve(name: str) -> Entry[DatasetCard]:
    """The entry of ``torchvision:NAME``, such as ``torchvision:CIFAR100``."""
    import torchvision.datasets as sets

    if name not in sets.__all__:
        raise UsageError(f'torchvision has no dataset "{name}"{did_you_mean(name, sets.__all__)}')

    def load(*, root: str = "data", download: bool = False, **options: Any) -> Dataset:
        return _load(name, getattr(sets, name), root, download, options)

    card = DatasetCard(
        name=f"torchvision:{name}",
        summary=f"torchvision's {name}; options go to its constructor, download=true fetches it.",
        licence="See the dataset's own terms",
        source=f"torchvision.datasets.{name}",
    )
    return Entry(load, card)


def _load(name: str, kind: Any, root: str, download: bool, options: dict[str, Any]) -> Dataset:
    known = inspect.signature(kind).parameters
    for option in options:
        if option not in known:
            raise UsageError(f'torchvision:{name} has no option "{option}"{did_you_mean(option, known)}')
    common = {**options, **({"root": root} if "root" in known else {})}
    if "download" in known:
        common["download"] = download
    parts = [_make(name, kind, {**common, **part}) for part in _parts(known, options)]
    labels = np.concatenate([_labels(name, part) for part in parts])
    order, ids = np.unique(labels, return_inverse=True)
    named = getattr(parts[0], "classes", None)
    names = [
        str(named[label]) if named and 0 <= label < len(named) else str(label) for label in order.tolist()
    ]
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    first = np.concatenate([np.arange(len(part)) for part in parts])
    images = PictureImages(_Picture(parts, owners, first), np.arange(len(labels)))
    is_test = owners == len(parts) - 1 if len(parts) > 1 else None
    return Dataset(
        name=f"torchvision:{name}",
        images=images,
        labels=ids.astype(np.int64),
        class_names=tuple(names),
        fingerprint=fingerprint(images, labels, owners),
        is_test=is_test,
    )


class _Picture:
    """Row to picture, as a class so that it can be sent to another process."""

    def __init__(self, parts: Sequence[Any], owners: Rows, rows: Rows) -> None:
        self._parts, self._owners, self._rows = parts, owners, rows

    def __call__(self, row: int) -> object:
        return self._parts[self._owners[row]][int(self._rows[row])][0]


def _parts(known: Any, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Both the training and the test part where torchvision knows them by the flag ``train``."""
    if "train" in known and "train" not in options:
        return [{"train": True}, {"train": False}]
    return [{}]


def _make(name: str, kind: Any, options: dict[str, Any]) -> Any:
    try:
        return kind(**options)
    except (RuntimeError, OSError, ImportError) as error:
        remedy = "" if options.get("download") else "; set download=true, or root to where it lies"
        raise RunError(f"torchvision:{name} cannot be opened: {error}{remedy}") from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"torchvision:{name}: {error}; see torchvision's documentation of it") from error


def _labels(name: str, part: Any) -> Rows:
    """The labels where torchvision's classes keep them, else by reading every sample."""
    for attribute in ("targets", "labels", "_labels", "y"):
        values = getattr(part, attribute, None)
        if values is not None and len(values) == len(part):
            break
    else:
        values = [part[row][1] for row in range(len(part))]
    labels = np.asarray(values)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise UsageError(f"torchvision:{name} has no single class per image, so it cannot be used here")
    return labels.astype(np.int64)
