"""Write an archive: one file per kind of record, and the same bytes for the same records."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors.numpy import save

from levelfield.core import files
from levelfield.records._archive_files import (
    ARCHIVE_VERSION,
    CLASS_NAMES_FILE,
    MANIFEST_FILE,
    SCORES_FILE,
    ArchivedFile,
    ArchiveManifest,
    content_digest,
    lines_file,
)
from levelfield.records._arrays import class_means
from levelfield.records._gallery import Gallery
from levelfield.records._models import Rerun, Trial
from levelfield.records._record_files import KINDS, Kind, RecordFiles

# Files that are the same in a directory and in an archive.
COPIED_FILES = (
    "schema.json",
    "experiment.json",
    "plan.json",
    "revisions.jsonl",
    "ledger.jsonl",
    "ledger.head.json",
    CLASS_NAMES_FILE,
)
COMPRESS_ABOVE = 100_000  # bytes; smaller files stay readable without a tool
RUN_KINDS: tuple[Kind, ...] = ("specs", "results", "provenance")


def write_archive(
    root: Path, records: RecordFiles, out: Path, *, gallery: Gallery | None = None
) -> ArchiveManifest:
    """Write the records of the experiment in ``root`` to the directory ``out``, and return its manifest.

    Every search, trial, selection and rerun is kept, and every finished run. Weights, logs, images and the
    retrieval gallery are left out, except the names of its classes. Values of single queries become class
    means.

    Args:
        root: Experiment directory or archive.
        records: Its records.
        out: New directory.
        gallery: Retrieval gallery of the experiment, if there is one.
    """
    written: dict[str, ArchivedFile] = {}

    def write(name: str, data: bytes, count: int, packed: bytes | None = None) -> None:
        files.write_bytes(out / name, data if packed is None else packed)
        written[name] = ArchivedFile(records=count, sha256=content_digest(data, name))

    for name in COPIED_FILES:
        if (root / name).exists():
            files.check_is_file(root / name, max_bytes=files.MAX_BYTES)
            data = (root / name).read_bytes().replace(b"\r\n", b"\n")
            write(name, data, data.count(b"\n") if name.endswith(".jsonl") else 1)
    if gallery is not None and CLASS_NAMES_FILE not in written:
        names = {str(label): gallery.class_names[label] for label in sorted(gallery.class_names)}
        write(CLASS_NAMES_FILE, json.dumps(names, indent=1, ensure_ascii=False).encode() + b"\n", len(names))
    finished = {name.split("/")[1] for name in records.names("results")}
    for kind in KINDS:
        lines = [
            _line(name, records.read_json(name))
            for name in records.names(kind)
            if kind not in RUN_KINDS or name.split("/")[1] in finished
        ]
        data = b"".join(lines)
        if len(data) > COMPRESS_ABOVE:
            write(f"{lines_file(kind)}.gz", data, len(lines), _compress(data))
        elif lines:
            write(lines_file(kind), data, len(lines))
    arrays = dict(_class_scores(records))
    if arrays:
        write(SCORES_FILE, save(arrays), len(arrays))
    manifest = ArchiveManifest(
        archive_version=ARCHIVE_VERSION, files=written, missing_runs=len(named_runs(records) - finished)
    )
    files.write_json(out / MANIFEST_FILE, manifest.model_dump(mode="json"))
    return manifest


def named_runs(records: RecordFiles) -> set[str]:
    """Return the digests of all runs that a trial or a rerun names."""
    searched = {run for name in records.names("trials") for run in records.read(Trial, name).runs}
    return searched | {run for name in records.names("reruns") for run in records.read(Rerun, name).runs}


def _line(name: str, record: Any) -> bytes:
    values = {"file": name, "record": record}
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _compress(data: bytes) -> bytes:
    """Return gzip data without a time or a file name."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as stream:
        stream.write(data)
    return packed.getvalue()


def _class_scores(records: RecordFiles) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the class means of each rerun, as SELECTION/rerun-NN/ARRAY."""
    for name in records.names("reruns"):
        file = f"{name.removesuffix('.json')}.safetensors"
        if not records.exists(file):
            continue
        with records.open_arrays(file) as opened:
            # not a dictionary
            means = class_means({key: opened.get_tensor(key) for key in opened.keys()})  # noqa: SIM118
        prefix = name.removeprefix("confirmations/").removesuffix(".json")
        yield from ((f"{prefix}/{key}", value) for key, value in sorted(means.items()))
