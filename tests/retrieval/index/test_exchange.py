"""Exports for other vector databases: what is read back is the index, and gives the same answers."""

from __future__ import annotations

import csv
import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.retrieval.index.conftest import draw, fill, make_model
from typer.testing import CliRunner

import levelfield as lf
from levelfield.cli._app import app
from levelfield.core.errors import UsageError
from levelfield.retrieval.index import (
    add_images,
    exchange,
    images_from_folder,
    open_index,
    open_or_create_index,
)

TEXT = 'a "quoted", {name}\nof two lines; ümläut'


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Index of 11 images, one of them removed, with metadata."""
    root = tmp_path_factory.mktemp("exchange")
    model = make_model(root / "model")
    with open_or_create_index(root / "index", model) as store:
        add_images(store, lf.load_embedder(model), images_from_folder(fill(root / "images", 11)), threads=1)
        store.set_metadata({row: {"year": str(2000 + row), "text": TEXT} for row in range(0, 11, 2)})
        store.remove_rows([4])
        store.finish()
    return root / "index"


def expected(index: Path) -> dict[int, tuple[str, str, dict[str, Any], list[float]]]:
    """Return the slow reference: every row by itself."""
    store = open_index(index)
    found = {}
    for image in store.all_images():
        cells: dict[str, Any] = dict(store.metadata([image.row]).get(image.row, {}))
        if "year" in cells:
            cells["year"] = float(cells["year"])
        vector = store.vectors(np.array([image.row]))[0]
        found[image.row] = (image.name, image.label, cells, [float(value) for value in vector])
    return found


def write(index: Path, target: Path, database: str) -> Any:
    done = CliRunner().invoke(
        app, ["index", "-o", str(index), "--export", database, "--export-to", str(target)]
    )
    assert done.exit_code == 0 and "10 images written" in done.stdout
    manifest = json.loads((target / "manifest.json").read_text())
    assert manifest["images"] == 10 and manifest["identity"] == open_index(index).model.identity
    files = {file.name for file in target.iterdir()} - {"manifest.json"}
    assert files == set(manifest["files"])
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((target / name).read_bytes()).hexdigest() == digest
    return manifest


@pytest.mark.parametrize("per_file", [3, 1000])
def test_qdrant(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_file: int) -> None:
    size = open_index(index).model.size
    monkeypatch.setattr(exchange, "NUMBERS_PER_FILE", per_file * size)
    write(index, tmp_path / "out", "qdrant")
    found = {}
    files = sorted((tmp_path / "out").glob("points-*.json"))
    assert len(files) == -(-10 // per_file)
    for file in files:
        for point in json.loads(file.read_text())["points"]:
            payload = dict(point["payload"])
            found[point["id"]] = (payload.pop("name"), payload.pop("label"), payload, point["vector"])
    assert found == expected(index)
    collection = json.loads((tmp_path / "out" / "collection.json").read_text())
    assert collection == {"vectors": {"size": size, "distance": "Cosine"}}


def test_milvus(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(exchange, "ROWS_PER_FILE", 4)
    write(index, tmp_path / "out", "milvus")
    found = {}
    for file in sorted((tmp_path / "out").glob("*.parquet")):
        for line in pq.read_table(file).to_pylist():
            found[line["row"]] = (line["name"], line["label"], json.loads(line["metadata"]), line["vector"])
    assert found == expected(index)
    fields = json.loads((tmp_path / "out" / "collection.json").read_text())["schema"]["fields"]
    assert [field["fieldName"] for field in fields] == pq.read_schema(file).names


def test_pgvector_files(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "ROWS_PER_FILE", 4)
    write(index, tmp_path / "out", "pgvector")
    found = {}
    for file in sorted((tmp_path / "out").glob("*.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            for row, name, label, metadata, vector in csv.reader(lines):
                values = [float(np.float32(value)) for value in json.loads(vector)]
                found[int(row)] = (name, label, json.loads(metadata), values)
    assert found == expected(index)


@pytest.mark.slow
def test_a_database_with_the_export_gives_the_same_answers(index: Path, tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    write(index, tmp_path / "out", "pgvector")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pgserver")
        server = pgserver.get_server(tmp_path / "postgres")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for line in (tmp_path / "out" / "load.sql").read_text().splitlines():
                if line.startswith("\\copy"):  # psql sends the file; so does this
                    name, end = line.split("'")[1], line.split("'")[2]
                    with connection.cursor().copy(f"copy images from stdin {end}") as copy:
                        copy.write((tmp_path / "out" / name).read_bytes())
                elif not line.startswith("\\"):
                    connection.execute(line)
            searcher = lf.Searcher(index)
            for seed in range(3):
                query = searcher.embedder.embed(draw(100 + seed))[0]
                wanted = searcher.search_vector(query, k=4, filters=["year>=2002"]).neighbors
                got = connection.execute(
                    "select row, 1 - (vector <=> %s::vector) from images "
                    "where (metadata->>'year')::float >= 2002 order by vector <=> %s::vector limit 4",
                    (str(query.tolist()), str(query.tolist())),
                ).fetchall()
                assert [row for row, _ in got] == [each.row for each in wanted]
                np.testing.assert_allclose(
                    [value for _, value in got], [each.similarity for each in wanted], atol=1e-5
                )
    finally:
        server.cleanup()


def test_mistakes_get_one_line(index: Path, tmp_path: Path) -> None:
    store = open_index(index)
    with pytest.raises(UsageError, match="did you mean"):
        exchange.export_index(store, tmp_path / "new", "quadrant")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="not an empty directory"):
        exchange.export_index(store, tmp_path, "qdrant")
    assert (tmp_path / "file").read_text() == "mine"
