"""Readers of the CSV and YAML files of this package."""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml

from levelfield.core.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class PaperSource:
    """Publication whose numbers are transcribed here.

    Attributes:
        name: Value of ``source=``.
        title: Title of the publication.
        authors: Authors in the printed order.
        year: Year of publication.
        what: Transcribed tables.
        spread: Meaning of "±".
        results: CSV file of the results; None if only hyperparameters are transcribed.
    """

    name: str
    title: str
    authors: str
    year: int
    what: str
    spread: str
    results: str | None = None


@cache
def sources() -> dict[str, PaperSource]:
    """Return the transcribed publications by name.

    Example:
        >>> sources()["revisiting"].year
        2020
    """
    text = files(__package__).joinpath("sources.yaml").read_text(encoding="utf-8")
    return {name: PaperSource(name=name, **entry) for name, entry in yaml.safe_load(text).items()}


@cache
def read_table(filename: str) -> tuple[dict[str, str], ...]:
    """Return the rows of a CSV file of this package; all values are strings."""
    text = files(__package__).joinpath(filename).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def check_known(kind: str, wanted: str, known: Collection[str]) -> None:
    """Raise UsageError if no source has the name: a typo must not look like an empty table."""
    if wanted not in known:
        raise UsageError(f'no published {kind} "{wanted}"{did_you_mean(wanted, known)}')
