"""What a dataset is: images, labels in class order, and a card."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.records import PluginIdentity
from levelfield.registry import Card

Rows = npt.NDArray[np.int64]
QUERY, GALLERY = 1, 2  # the bits of Dataset.roles


class Images(Protocol):
    """A sequence of decoded images. Reading never depends on anything but the row."""

    def __len__(self) -> int:
        """How many images there are."""
        ...

    def read(self, row: int) -> Tensor:
        """Image ``row`` as a uint8 tensor of shape C x H x W (RGB, or one channel)."""
        ...

    def select(self, rows: Rows) -> Images:
        """A sequence of just these rows, in this order, that holds no way to reach the others."""
        ...


@dataclass(frozen=True, kw_only=True)
class Download:
    """A file of a dataset that can be fetched.

    Attributes:
        urls: Where it lies; tried in this order.
        file: Its name, below the dataset's root.
        md5: Its checksum as published or as widely used; empty if none is known.
        md5_url: Where the publisher keeps the checksum, for files too many to list theirs here.
        into: The folder, below the root, that an archive is unpacked into.
        part: The part of the dataset that it belongs to; parts can be fetched one by one.
    """

    urls: tuple[str, ...]
    file: str
    md5: str = ""
    md5_url: str = ""
    into: str = "."
    part: str = "all"


@dataclass(frozen=True, kw_only=True)
class DatasetCard(Card):
    """A dataset's card: where it comes from and under which terms.

    ``by_hand`` says how to get what cannot be fetched automatically. ``pictures_may_be_shown`` is False where
    the terms forbid to pass on even small copies: reports then show none.
    """

    licence: str = ""
    source: str = ""
    citation: str = ""
    downloads: tuple[Download, ...] = ()
    by_hand: str = ""
    pictures_may_be_shown: bool = True


@dataclass(frozen=True)
class Dataset:
    """Images with labels.

    Attributes:
        name: The registered name.
        images: The decoded images; row i belongs to ``labels[i]``.
        labels: int64 array of shape (N,), class ids 0..C-1 **in class order** (the order in which
            split plans cut the classes).
        class_names: One name per class id.
        is_test: bool array of shape (N,): the official test samples, where the dataset has an official
            split; None where split plans may choose.
        roles: For sets whose test queries and gallery differ: int8 array of shape (N,), 0 = neither,
            1 = query, 2 = gallery, 3 = both; None if every test image is both.
        is_validation: bool array of shape (N,): the official validation samples; None where there are none.
        fingerprint: A hash of what the images and labels are (not of where they lie).
        notes: What a user should know of how the set was read, one sentence each.
        row_numbers: int64 array of shape (N,): which rows of the set that ``fingerprint`` names these are.
            Fingerprint and row numbers together say which images a part of a dataset holds. None means all.
        made_from: The plug-in and the options that it was loaded with; :func:`levelfield.data.load` sets it.
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

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise UsageError(
                f"dataset {self.name}: {len(self.images)} images but {len(self.labels)} labels; "
                "the two must be of the same length"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """How many classes have a name, whether or not a sample is left of them."""
        return len(self.class_names)

    def select(self, rows: Rows) -> Dataset:
        """The dataset of just these rows; class ids and names stay as they are."""
        numbers = np.arange(len(self)) if self.row_numbers is None else self.row_numbers
        return replace(
            self,
            images=self.images.select(rows),
            labels=self.labels[rows],
            row_numbers=numbers[rows],
            is_test=None if self.is_test is None else self.is_test[rows],
            roles=None if self.roles is None else self.roles[rows],
            is_validation=None if self.is_validation is None else self.is_validation[rows],
        )
