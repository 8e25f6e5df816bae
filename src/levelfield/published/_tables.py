"""Read the CSV and YAML files of this folder."""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml

from levelfield.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class Source:
    """A publication whose numbers are kept here.

    Attributes:
        name: What ``source=`` takes.
        title: Of the publication.
        authors: In the order printed.
        year: Of publication.
        what: Which of its tables were transcribed.
        spread: What its "±" means.
        results: The CSV file with its results; None if only its hyperparameters are kept.
    """

    name: str
    title: str
    authors: str
    year: int
    what: str
    spread: str
    results: str | None = None


@cache
def sources() -> dict[str, Source]:
    """The transcribed publications by name.

    Example:
        >>> sources()["revisiting"].year
        2020
    """
    text = files(__package__).joinpath("sources.yaml").read_text(encoding="utf-8")
    return {name: Source(name=name, **entry) for name, entry in yaml.safe_load(text).items()}


@cache
def read_table(filename: str) -> tuple[dict[str, str], ...]:
    """The rows of a CSV file of this folder as they are written, every value a string."""
    text = files(__package__).joinpath(filename).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def check_known(kind: str, wanted: str, known: Collection[str]) -> None:
    """Refuse a name that occurs nowhere, with a suggestion: a typo must not look like an empty table."""
    if wanted not in known:
        raise UsageError(f'no published {kind} "{wanted}"{did_you_mean(wanted, known)}')
