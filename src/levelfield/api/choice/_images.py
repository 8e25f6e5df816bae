"""Images that models are compared on: test classes, and images of other classes that codes are fitted to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from levelfield import data
from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.seeds import numpy_generator
from levelfield.data import Dataset, FileImages, Images, Rows

MOST_FITTED = 10_000  # images that axes and ranges of codes are taken from
FEWEST_CLASSES = 4  # with fewer, all classes are scored
USUAL_METRICS = ("precision_at_1", "map_at_r", "recall_at_10")


@dataclass(frozen=True, eq=False)
class ChoiceImages:
    """Images for a comparison of models.

    Attributes:
        test: Images that are scored.
        fitted: Images of other classes, for axes and ranges of codes; None if there are none.
        metrics: Usual metrics of the dataset.
        spec: Name and options of the dataset, for the training of heads.
        notes: Remarks, one sentence each.
        official: Whether the dataset has an official test set.
    """

    test: Dataset
    fitted: Dataset | None
    metrics: tuple[str, ...]
    spec: dict[str, Any]
    notes: tuple[str, ...]
    official: bool = False


def open_images(source: str, options: dict[str, Any], *, all_classes: bool) -> ChoiceImages:
    """Return the images of a folder, a CSV file or a dataset.

    Args:
        source: Folder with one subfolder per class, CSV file (columns path, label), or name of a dataset.
        options: Options of the dataset.
        all_classes: Score all images instead of the test classes.
    """
    if Path(source).is_dir():
        name, options = "folder", {"root": source, **options}
    elif source.endswith(".csv"):
        name, options = "csv", {"file": source, **options}
    elif "/" in source and not source.startswith("hf:"):
        raise UsageError(f"there is no folder or CSV file {source}; check the path")
    elif ":" not in source and source not in data.registry.names():
        raise UsageError(
            f'there is no folder, CSV file or dataset "{source}"{did_you_mean(source, data.registry.names())}'
        )
    else:
        name = source
    dataset = _in_color(data.load(name, **options))
    is_test, notes = _test_rows(dataset, all_classes=all_classes)
    test = dataset.select(np.flatnonzero(is_test))
    others = np.flatnonzero(~is_test)
    if len(others) > MOST_FITTED:
        random = numpy_generator("choice", dataset.fingerprint)
        others = np.sort(random.permutation(others)[:MOST_FITTED])
    if not len(others):
        notes.append(
            "There are no images of other classes: PCA is left out, and int8 and binary codes take their "
            "ranges from the scored images."
        )
    if test.digests is not None and (copies := len(test) - len(np.unique(test.digests, axis=0))):
        notes.append(f"{copies} images are copies of others; a copy is found first.")
    card = data.registry[name].card
    return ChoiceImages(
        test=test,
        fitted=dataset.select(others) if len(others) else None,
        metrics=card.metrics or USUAL_METRICS,
        spec={"name": name, **options},
        notes=(*notes, *(f"{note[0].upper()}{note[1:]}." for note in dataset.notes)),
        official=dataset.is_test is not None,
    )


class _ColorImages:
    """Gray images with three equal channels, as pretrained networks need them."""

    def __init__(self, images: Images) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def read(self, row: int) -> Tensor:
        """Return image ``row`` with three channels."""
        image = self._images.read(row)
        return image.expand(3, -1, -1) if image.shape[0] == 1 else image

    def select(self, rows: Rows) -> _ColorImages:
        """Return the images of these rows, in this order."""
        return _ColorImages(self._images.select(rows))


def _in_color(dataset: Dataset) -> Dataset:
    if isinstance(dataset.images, FileImages) or not len(dataset) or dataset.images.read(0).shape[0] == 3:
        return dataset
    return replace(dataset, images=_ColorImages(dataset.images))


def _test_rows(
    dataset: Dataset, *, all_classes: bool
) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], list[str]]:
    """Return the mask of the scored images: the official test set, else the last half of the classes."""
    everything = np.ones(len(dataset), dtype=np.bool_)
    if all_classes:
        if dataset.roles is not None:
            raise UsageError(f"{dataset.name} has queries of its own; leave out the option for all classes")
        return everything, []
    if dataset.is_test is not None and dataset.is_test.any():
        return np.asarray(dataset.is_test, dtype=np.bool_), []
    classes = np.unique(dataset.labels)
    if len(classes) < FEWEST_CLASSES:
        return everything, [f"With {len(classes)} classes all images are scored."]
    # as the split plans cut them, so that an experiment on the same images has the same test classes
    mask: np.ndarray[Any, np.dtype[np.bool_]] = np.isin(dataset.labels, classes[-(len(classes) // 2) :])
    return mask, []
