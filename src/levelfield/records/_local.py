"""Local path of the dataset, remembered beside the records; an archive does not contain it."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from levelfield.core import files
from levelfield.core.errors import RunError
from levelfield.records._models import Record
from levelfield.records._parse import read_record

LOCAL_FILE = "local.json"


class LocalPaths(Record):
    """Paths on this machine: ``local.json``.

    Attributes:
        dataset_root: Directory of the dataset.
    """

    dataset_root: Path


def remember_dataset_root(directory: Path, root: Path) -> None:
    """Write the absolute path of the dataset to an experiment directory, for later commands."""
    found = LocalPaths(dataset_root=root.expanduser().absolute())
    files.write_json(directory / LOCAL_FILE, found.model_dump(mode="json"))


def remembered_dataset_root(directory: Path) -> Path | None:
    """Return the path that the dataset had on this machine; None if it is not known or is gone."""
    file = directory / LOCAL_FILE
    if not file.is_file():
        return None
    try:
        root = read_record(LocalPaths, file).dataset_root
    except (RunError, ValidationError):  # a damaged note is no note
        return None
    return root if root.exists() else None
