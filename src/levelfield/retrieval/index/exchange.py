"""Export of an index to files that external vector databases load: Qdrant, Milvus, PostgreSQL with pgvector.

An index directory is searched by one machine. These databases distribute vectors over several; the model
stays here and embeds the queries.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.files import atomic_write, make_directory, sha256_of_file, write_json, write_text
from levelfield.retrieval.index._filters import as_number
from levelfield.retrieval.index._store import VectorStore
from levelfield.retrieval.index._vectors import Floats

Database = Literal["qdrant", "milvus", "pgvector"]
MANIFEST = "manifest.json"
NUMBERS_PER_FILE = 1_500_000  # of all vectors in a JSON file; about 18 MB, Qdrant accepts 32 MB per request
ROWS_PER_FILE = 100_000  # in files that are read from disk
CHUNK = 10_000  # rows read at once
MAX_GRAPH_SIZE = 2000  # maximum vector size of pgvector's graph index


@dataclass(frozen=True)
class ExportedImage:
    """Image as other databases get it: the row is its key there."""

    row: int
    name: str
    label: str
    metadata: dict[str, str]
    vector: Floats


def export_index(store: VectorStore, directory: str | Path, database: str) -> int:
    """Write an index to files that another vector database loads.

    The file ``manifest.json`` is written last, with a checksum of every other file. An export without it is
    not complete.

    Args:
        store: Index.
        directory: Empty or missing directory.
        database: "qdrant": JSON bodies of its upsert request. "milvus": Parquet files for its bulk import.
            "pgvector": CSV files and a script for psql.

    Returns:
        The number of images.
    """
    if database not in _WRITERS:
        raise UsageError(f'unknown database "{database}"{did_you_mean(database, get_args(Database))}')
    target = Path(directory)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} is not an empty directory; choose another one for the export")
    make_directory(target)
    store.refresh()
    count = _WRITERS[database](store, target)
    files = sorted(file for file in target.iterdir() if file.is_file())
    card = store.model
    write_json(
        target / MANIFEST,
        {
            "database": database,
            "images": count,
            "size": card.size,
            "distance": "cosine",
            "model": card.name,
            "identity": card.identity,
            "threshold": None if card.threshold is None else card.threshold.similarity,
            "files": {file.name: sha256_of_file(file) for file in files},
        },
    )
    return count


def _chunks(store: VectorStore, size: int) -> Iterator[list[ExportedImage]]:
    """Yield all images by row, ``size`` at a time."""
    last, block = -1, min(size, CHUNK)
    waiting: list[ExportedImage] = []
    while images := store.images_without("", after=last, count=block):  # no column has this name
        rows = [image.row for image in images]
        last = rows[-1]
        vectors, metadata = store.vectors(np.array(rows, dtype=np.int64)), store.metadata(rows)
        waiting += [
            ExportedImage(image.row, image.name, image.label, metadata.get(image.row, {}), vector)
            for image, vector in zip(images, vectors, strict=True)
        ]
        if len(waiting) + block > size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _as_value(text: str) -> str | float:
    """Return a number for text that filters compare as a number, so that ranges work there too."""
    number = as_number(text)
    return text if number is None else number


def _write_qdrant(store: VectorStore, target: Path) -> int:
    size = store.model.size
    write_json(target / "collection.json", {"vectors": {"size": size, "distance": "Cosine"}})
    count = 0
    for number, images in enumerate(_chunks(store, max(1, min(1000, NUMBERS_PER_FILE // size)))):
        points = [
            {
                "id": image.row,
                "vector": [float(value) for value in image.vector],
                "payload": {
                    **{key: _as_value(value) for key, value in image.metadata.items()},
                    "name": image.name,
                    "label": image.label,
                },
            }
            for image in images
        ]
        write_text(target / f"points-{number:06d}.json", json.dumps({"points": points}))
        count += len(images)
    return count


def _write_milvus(store: VectorStore, target: Path) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UsageError("files for Milvus need pyarrow; run pip install 'levelfield[parquet]'") from error
    size = store.model.size
    fields: list[dict[str, Any]] = [
        {"fieldName": "row", "dataType": "Int64", "isPrimary": True},
        {"fieldName": "vector", "dataType": "FloatVector", "elementTypeParams": {"dim": str(size)}},
        {"fieldName": "name", "dataType": "VarChar", "elementTypeParams": {"max_length": "65535"}},
        {"fieldName": "label", "dataType": "VarChar", "elementTypeParams": {"max_length": "65535"}},
        {"fieldName": "metadata", "dataType": "JSON"},
    ]
    write_json(
        target / "collection.json",
        {
            "schema": {"autoId": False, "enableDynamicField": False, "fields": fields},
            "indexParams": [{"fieldName": "vector", "metricType": "COSINE", "indexType": "AUTOINDEX"}],
        },
    )
    schema = pa.schema(
        [
            ("row", pa.int64()),
            ("vector", pa.list_(pa.float32())),
            ("name", pa.string()),
            ("label", pa.string()),
            ("metadata", pa.string()),
        ]
    )
    count = 0
    for number, images in enumerate(_chunks(store, ROWS_PER_FILE)):
        columns = {
            "row": [image.row for image in images],
            "vector": [image.vector for image in images],
            "name": [image.name for image in images],
            "label": [image.label for image in images],
            "metadata": [
                json.dumps({key: _as_value(value) for key, value in image.metadata.items()})
                for image in images
            ],
        }
        with atomic_write(target / f"images-{number:06d}.parquet") as temporary:
            pq.write_table(pa.table(columns, schema=schema), temporary)
        count += len(images)
    return count


def _write_pgvector(store: VectorStore, target: Path) -> int:
    count, names = 0, []
    for number, images in enumerate(_chunks(store, ROWS_PER_FILE)):
        names.append(f"images-{number:06d}.csv")
        with (
            atomic_write(target / names[-1]) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            for image in images:
                values = {key: _as_value(value) for key, value in image.metadata.items()}
                vector = ",".join(str(value) for value in image.vector)
                writer.writerow([image.row, image.name, image.label, json.dumps(values), f"[{vector}]"])
        count += len(images)
    write_text(target / "load.sql", _script(names, store.model.size))
    return count


def _script(names: Sequence[str], size: int) -> str:
    """Return the script for psql: a table, its rows, and a graph if the size allows one."""
    lines = [
        "\\set ON_ERROR_STOP on",
        "begin;",
        "create extension if not exists vector;",
        "create table images (row bigint primary key, name text not null, label text not null, "
        f"metadata jsonb not null, vector vector({size}) not null);",
        *(f"\\copy images from '{name}' with (format csv)" for name in names),
        "create index on images (label);",
        "create index on images using gin (metadata);",
    ]
    if size <= MAX_GRAPH_SIZE:
        lines.append("create index on images using hnsw (vector vector_cosine_ops);")
    return "\n".join([*lines, "commit;", ""])


_WRITERS: dict[str, Callable[[VectorStore, Path], int]] = {
    "qdrant": _write_qdrant,
    "milvus": _write_milvus,
    "pgvector": _write_pgvector,
}
