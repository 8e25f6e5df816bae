"""Dataset types: images, labels in class order, and a card."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.registry import Card
from levelfield.records import PluginIdentity

Rows = npt.NDArray[np.int64]
QUERY, GALLERY = 1, 2  # bits of Dataset.roles


class Images(Protocol):
    """Sequence of decoded images. The result of a read depends on the row only."""

    def __len__(self) -> int:
        """Return the number of images."""
        ...

    def read(self, row: int) -> Tensor:
        """Return image ``row`` as a uint8 tensor of shape C x H x W (RGB, or one channel)."""
        ...

    def select(self, rows: Rows) -> Images:
        """Return the images of these rows, in this order; the result must not give access to other rows."""
        ...


@dataclass(frozen=True, kw_only=True)
class Download:
    """Downloadable file of a dataset.

    Attributes:
        urls: Addresses, tried in this order.
        file: Target path, relative to the dataset's root.
        md5: Published or widely used checksum; empty if none is known.
        md5_url: Address of the publisher's checksum file, for datasets with many files.
        into: Directory that an archive is unpacked into, relative to the root.
        part: Part of the dataset; parts can be fetched separately.
    """

    urls: tuple[str, ...]
    file: str
    md5: str = ""
    md5_url: str = ""
    into: str = "."
    part: str = "all"


@dataclass(frozen=True, kw_only=True)
class DatasetCard(Card):
    """Card of a dataset: source, license and downloads.

    Attributes:
        license: License or terms of use, as text.
        source: Address of the official source.
        citation: Reference of the paper.
        downloads: Files that can be fetched automatically.
        manual_download: Instructions for files that cannot be fetched automatically.
        images_may_be_shown: Whether reports may include thumbnails; False where the terms forbid copies.
        metrics: Metrics that the benchmark is scored by; empty for the usual ones.
    """

    license: str = ""
    source: str = ""
    citation: str = ""
    downloads: tuple[Download, ...] = ()
    manual_download: str = ""
    images_may_be_shown: bool = True
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """Images with labels, and the official split if there is one.

    Attributes:
        name: Registered name.
        images: Decoded images; image i has the label ``labels[i]``.
        labels: int64 array of shape (N,), class ids 0..C-1 **in class order** (the order in which
            split plans cut the classes).
        class_names: One name per class id.
        is_test: bool array of shape (N,): official test samples; None if the dataset has no official split
            and split plans may choose.
        roles: For datasets with separate test queries and gallery: int8 array of shape (N,), 0 = neither,
            1 = query, 2 = gallery, 3 = both; None if every test image is both.
        is_validation: bool array of shape (N,): official validation samples; None if there are none.
        fingerprint: Digest of the images and labels; independent of local paths.
        notes: Remarks for the user about how the dataset was read, one sentence each.
        row_numbers: int64 array of shape (N,): row numbers in the dataset that ``fingerprint`` identifies.
            Fingerprint and row numbers together identify the images of a selection. None means all rows.
        made_from: Plug-in and options that the dataset was loaded with; set by :func:`levelfield.data.load`.
        digests: uint8 array of shape (N, 32): SHA-256 of each image, as a file or as pixels; None if they are
            not known. Two images with one digest are the same image.
        official: True for a published list of files, whose fingerprint covers file names and sizes only.
        relevant: For datasets that list what is relevant to each query: int64 array of shape (P, 2), row
            numbers of a query and of a relevant image. None if the class decides.
        ignored: int64 array of shape (P, 2), row numbers of a query and of an image that is neither right nor
            wrong for it.
    """

    name: str
    images: Images
    labels: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    fingerprint: str
    is_test: npt.NDArray[np.bool_] | None = None
    roles: npt.NDArray[np.int8] | None = None
    is_validation: npt.NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = field(default=())
    row_numbers: Rows | None = None
    made_from: PluginIdentity | None = None
    digests: npt.NDArray[np.uint8] | None = None
    official: bool = False
    relevant: Rows | None = None
    ignored: Rows | None = None

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise UsageError(
                f"dataset {self.name}: {len(self.images)} images but {len(self.labels)} labels; "
                "give one label per image"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """Number of class names, including classes without samples."""
        return len(self.class_names)

    @property
    def content(self) -> str:
        """Digest of the content of all images, in order; empty if ``digests`` are not known.

        The fingerprint of an official dataset does not cover contents, so features, stores and checks of an
        experiment's data use this digest besides the fingerprint.
        """
        return "" if self.digests is None else hashlib.sha256(self.digests.tobytes()).hexdigest()

    def select(self, rows: Rows) -> Dataset:
        """Return the dataset of these rows; class ids and names are unchanged."""
        numbers = np.arange(len(self)) if self.row_numbers is None else self.row_numbers
        return replace(
            self,
            images=self.images.select(rows),
            labels=self.labels[rows],
            row_numbers=numbers[rows],
            digests=None if self.digests is None else self.digests[rows],
            is_test=None if self.is_test is None else self.is_test[rows],
            roles=None if self.roles is None else self.roles[rows],
            is_validation=None if self.is_validation is None else self.is_validation[rows],
            relevant=_renumber(self.relevant, rows, len(self)),
            ignored=_renumber(self.ignored, rows, len(self)),
        )

    def query_lists(self) -> tuple[list[Rows], list[Rows]] | None:
        """Return for each query its relevant and its ignored gallery images, counted among the gallery.

        None if the class decides what is relevant. Queries and gallery are those of ``roles``, in row order.
        """
        if self.relevant is None:
            return None
        roles = np.full(len(self), QUERY | GALLERY) if self.roles is None else self.roles
        queries, gallery = np.flatnonzero(roles & QUERY), np.flatnonzero(roles & GALLERY)
        ignored = np.empty((0, 2), dtype=np.int64) if self.ignored is None else self.ignored
        found = []
        for pairs in (self.relevant, ignored):
            pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]  # noqa: PLW2901 - sorted by query
            items = np.searchsorted(gallery, pairs[:, 1])
            edges = np.searchsorted(pairs[:, 0], queries), np.searchsorted(pairs[:, 0], queries, side="right")
            found.append([items[a:b] for a, b in zip(*edges, strict=True)])
        return found[0], found[1]


def _renumber(pairs: Rows | None, rows: Rows, size: int) -> Rows | None:
    """Return the pairs of rows that are both selected, with their new numbers."""
    if pairs is None:
        return None
    number = np.full(size, -1, dtype=np.int64)
    number[rows] = np.arange(len(rows))
    found: Rows = number[pairs]
    return found[(found >= 0).all(axis=1)]
