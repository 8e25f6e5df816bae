"""Pipes and devices in the place of files, which a stranger's directory may hold as links."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from levelfield import data
from levelfield.analysis import read_comparison, verify
from levelfield.core import files
from levelfield.core.errors import LevelfieldError, RunError, UsageError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")


@pytest.fixture(params=["pipe", "device"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Path of a pipe without a writer, or of a link to a device that never ends."""
    file = tmp_path / "endless.json"
    if request.param == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    return file


def test_json_files(endless: Path) -> None:
    for read in (files.read_json, files.read_lines):
        with pytest.raises(RunError, match="is a pipe or a device and not a file"):
            read(endless)


def test_records(finished_tiny: Callable[..., Path], endless: Path) -> None:
    for name in ("experiment.json", "ledger.jsonl"):
        root = finished_tiny(name)
        (root / name).unlink()
        (root / name).symlink_to(endless)
        with pytest.raises(LevelfieldError, match="pipe or a device"):
            verify(root)
        if name == "experiment.json":
            with pytest.raises(LevelfieldError, match="pipe or a device"):
                read_comparison(root)


def test_a_table_of_images(endless: Path) -> None:
    with pytest.raises(UsageError, match="is a pipe or a device"):
        data.load("csv", file=str(endless))


def test_images_of_a_table(endless: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(f"path,label\n{endless},a\n")
    with pytest.raises(LevelfieldError, match="is not a regular file"):
        data.load("csv", file=str(table))


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    with file.open("wb") as stream:
        stream.truncate(files.MAX_BYTES + 1)  # takes no room
    with pytest.raises(RunError, match="more than"):
        files.read_json(file)


@pytest.mark.parametrize("label", ["--5", "9" * 5000, "-"])
def test_labels_that_look_like_numbers(label: str, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(f"path,label\nx.png,{label}\n")
    with pytest.raises(UsageError, match="files are missing"):
        data.load("csv", file=str(table))
