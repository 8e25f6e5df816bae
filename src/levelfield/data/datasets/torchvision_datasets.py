"""Any labeled dataset of torchvision, as ``torchvision:NAME``."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from levelfield.core.errors import RunError, UsageError, did_you_mean
from levelfield.core.registry import RegistryEntry
from levelfield.data import registry
from levelfield.data._content import Digests, hash_arrays, hash_files, remember_digests
from levelfield.data._dataset import Dataset, DatasetCard, Rows
from levelfield.data._image_files import only_raster_formats
from levelfield.data._pillow_images import PillowImages, fingerprint, hash_images


@registry.family("torchvision")
def resolve_torchvision_dataset(name: str) -> RegistryEntry[DatasetCard]:
    """Return the registry entry of ``torchvision:NAME``, such as ``torchvision:CIFAR100``."""
    import torchvision.datasets as sets

    if name not in sets.__all__:
        raise UsageError(f'torchvision has no dataset "{name}"{did_you_mean(name, sets.__all__)}')

    def load(*, root: str = "data", download: bool = False, **options: Any) -> Dataset:
        return _load(name, getattr(sets, name), root, download, options)

    card = DatasetCard(
        name=f"torchvision:{name}",
        summary=f"torchvision's {name}; options go to its constructor, download=true fetches it.",
        license="See the dataset's own terms",
        source=f"torchvision.datasets.{name}",
    )
    return RegistryEntry(load, card)


def _load(name: str, dataset_class: Any, root: str, download: bool, options: dict[str, Any]) -> Dataset:
    known = inspect.signature(dataset_class).parameters
    for option in options:
        if option not in known:
            raise UsageError(f'torchvision:{name} has no option "{option}"{did_you_mean(option, known)}')
    common = {**options, **({"root": root} if "root" in known else {})}
    if "download" in known:
        common["download"] = download
    parts = [_create(name, dataset_class, {**common, **part}) for part in _parts(known, options)]
    labels = np.concatenate([_labels(name, part) for part in parts])
    order, ids = np.unique(labels, return_inverse=True)
    named = getattr(parts[0], "classes", None)
    names = [
        str(named[label]) if named and 0 <= label < len(named) else str(label) for label in order.tolist()
    ]
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    first = np.concatenate([np.arange(len(part)) for part in parts])
    images = PillowImages(_RowReader(parts, owners, first), np.arange(len(labels)))
    digests = np.concatenate([_digests(part, root, options) for part in parts])
    is_test = owners == len(parts) - 1 if len(parts) > 1 else None
    return Dataset(
        name=f"torchvision:{name}",
        images=images,
        labels=ids.astype(np.int64),
        class_names=tuple(names),
        fingerprint=fingerprint(digests, labels, owners),
        is_test=is_test,
        digests=digests,
    )


class _RowReader:
    """Function from a row to its image; a class, so that it can be pickled."""

    def __init__(self, parts: Sequence[Any], owners: Rows, rows: Rows) -> None:
        self._parts, self._owners, self._rows = parts, owners, rows

    def __call__(self, row: int) -> object:
        with only_raster_formats():  # torchvision opens files with all formats of Pillow
            return self._parts[self._owners[row]][int(self._rows[row])][0]


def _digests(part: Any, root: str, options: dict[str, Any]) -> Digests:
    """Return the digest of each image: of its files if the dataset lists them, else of array or pixels."""
    lists = [paths for value in vars(part).values() if (paths := _as_paths(value, len(part)))]
    if lists:
        found = [hash_files(Path(root), paths) for paths in lists]
        if not any(each.missing for each in found):
            together = np.stack([each.digests for each in found], axis=1)
            return found[0].digests if len(found) == 1 else hash_arrays(together)
    array = getattr(part, "data", None)
    if isinstance(array, Tensor):
        array = array.numpy()
    if isinstance(array, np.ndarray) and len(array) == len(part):
        return hash_arrays(array)
    files = sorted(file for file in Path(root).rglob("*") if file.is_file())
    rows = np.arange(len(part))
    images = PillowImages(_RowReader([part], np.zeros_like(rows), rows), rows)
    return remember_digests(f"{type(part).__name__} {part!r} {options}", files, lambda: hash_images(images))


def _as_paths(value: object, length: int) -> list[str] | None:
    """Return ``value`` as paths if it lists one file per image, alone or with a label; else None."""
    if not isinstance(value, (list, tuple, np.ndarray)) or len(value) != length or not length:
        return None
    firsts = [item[0] if isinstance(item, (list, tuple)) and item else item for item in value]
    if not all(isinstance(item, (str, Path)) for item in firsts):
        return None
    paths = [str(Path(item).absolute()) for item in firsts]
    return paths if Path(paths[0]).is_file() else None


def _parts(known: Any, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the options of the training and the test part; one part if there is no flag ``train``."""
    if "train" in known and "train" not in options:
        return [{"train": True}, {"train": False}]
    return [{}]


def _create(name: str, dataset_class: Any, options: dict[str, Any]) -> Any:
    try:
        return dataset_class(**options)
    except (RuntimeError, OSError, ImportError) as error:
        remedy = "" if options.get("download") else "; set download=true, or root to its folder"
        raise RunError(f"torchvision:{name} cannot be opened: {error}{remedy}") from error
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"torchvision:{name}: {error}; see its page in torchvision's documentation"
        ) from error


def _labels(name: str, part: Any) -> Rows:
    """Return the labels from the usual attributes, else by reading every sample."""
    for attribute in ("targets", "labels", "_labels", "y"):
        values = getattr(part, attribute, None)
        if values is not None and len(values) == len(part):
            break
    else:
        with only_raster_formats():
            values = [part[row][1] for row in range(len(part))]
    labels = np.asarray(values)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise UsageError(f"torchvision:{name} does not have one class per image; use another dataset")
    return labels.astype(np.int64)
