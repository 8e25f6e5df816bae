"""Archive: a small copy of an experiment's records for publication, with everything that verdicts need."""

from __future__ import annotations

import shutil
from os import PathLike
from pathlib import Path

from levelfield.core import files
from levelfield.core.errors import UsageError
from levelfield.records import ArchiveManifest, Store, close_archives


def archive(root: str | PathLike[str], out: str | Path) -> ArchiveManifest:
    """Write the archive of an experiment to the new directory ``out``, and return its manifest.

    It has every search, trial, selection and test score, and every finished run, in one file per kind of
    record, and the tables of the report. Weights, logs and images are left out, and values of single queries
    become class means, from which verdicts are computed.

    Args:
        root: Experiment directory, or another archive.
        out: New or empty directory for the archive. It appears only when the archive is complete.
    """
    from levelfield.reports import write_tables

    store, out = Store(Path(root)), Path(out)
    store.experiment_record()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is not empty; choose a new directory, or delete its content")
    unfinished = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed process
    files.make_directory(unfinished)
    with files.wrap_disk_errors(out):
        manifest = store.write_archive(unfinished)
        write_tables(unfinished)
        close_archives()
        unfinished.replace(out)
    return manifest
