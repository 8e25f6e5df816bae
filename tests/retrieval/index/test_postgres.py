"""The same verbs on a real PostgreSQL server with pgvector."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.retrieval.index.conftest import draw, fill, make_model
from typer.testing import CliRunner

import levelfield as lf
from levelfield.cli._app import app, run_app
from levelfield.core.errors import RunError, UsageError
from levelfield.retrieval.index import NewImage, add_images, images_from_folder
from levelfield.retrieval.index.postgres import PostgresIndex


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a PostgreSQL server for these tests."""
    pytest.importorskip("psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pgserver")
        running = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield running.get_uri()
    running.cleanup()


def with_table(server: str, table: str) -> str:
    return f"{server}{'&' if '?' in server else '?'}table={table}"


@pytest.mark.slow
def test_the_verbs_on_a_database(server: str, images: Path, model: Path) -> None:
    address = with_table(server, "verbs")
    arguments = ["index", str(images), "--model", str(model), "-o", address, "--json"]
    facts = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert (facts["added"], facts["pictures"]) == (30, 30)
    facts = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert (facts["added"], facts["known"]) == (0, 30)
    file = sorted(images.rglob("*.png"))[4]
    found = CliRunner().invoke(
        app, ["search", address, str(file), "--model", str(model), "-k", "3", "--json"]
    )
    assert json.loads(found.stdout)["neighbors"][0]["name"] == str(file)
    removed = CliRunner().invoke(app, ["index", "--remove", str(images / "class0"), "-o", address])
    assert "10 images removed, 20 left" in removed.stdout


def test_it_finds_the_same_as_an_index_directory(
    server: str, images: Path, model: Path, tmp_path: Path
) -> None:
    address = with_table(server, "same")
    embedder = lf.load_embedder(model)
    store = PostgresIndex(address, model=embedder.card)
    add_images(store, embedder, images_from_folder(images))
    store.finish()
    CliRunner().invoke(app, ["index", str(images), "--model", str(model), "-o", str(tmp_path / "index")])
    there, here = lf.Searcher(address, model=model), lf.Searcher(tmp_path / "index")
    for seed in range(5):
        wanted = here.search(draw(1000 + seed), k=7).neighbors
        got = there.search(draw(1000 + seed), k=7).neighbors
        np.testing.assert_allclose([n.similarity for n in got], [n.similarity for n in wanted], atol=1e-5)
        assert [n.name for n in got] == [n.name for n in wanted]
    assert len(there.search(draw(0), k=1000).neighbors) == 30


def test_a_chunk_is_added_whole_or_not_at_all(server: str, model: Path) -> None:
    store = PostgresIndex(with_table(server, "whole"), model=lf.load_embedder(model).card)
    vectors = np.eye(8, dtype=np.float32)[:3]
    new_images = [NewImage(bytes([n]), f"item {n}", "") for n in range(3)]
    with pytest.raises(RunError, match="the database refused"):
        store.add([*new_images[:2], NewImage(b"x", "zero \0 byte", "")], vectors)
    assert len(store) == 0
    store.add(new_images, vectors)
    store.add(new_images, vectors)  # a second writer adds the same images
    assert len(store) == 3


def test_names_cannot_inject_sql(server: str, model: Path) -> None:
    store = PostgresIndex(with_table(server, "names"), model=lf.load_embedder(model).card)
    name = "a'); drop table names; --%_"
    store.add([NewImage(b"1", name, "'; --")], np.eye(8, dtype=np.float32)[:1])
    assert store.images([1])[0].name == name
    assert store.remove("a%") == 0
    assert store.remove(name) == 1


def test_another_model_is_refused(server: str, images: Path, model: Path, tmp_path: Path) -> None:
    address = with_table(server, "models")
    PostgresIndex(address, model=lf.load_embedder(model).card)
    other = make_model(tmp_path / "other", seed=1)
    with pytest.raises(UsageError, match="another model"):
        lf.Searcher(address, model=other)
    fill(images, 1)
    assert run_app(["index", str(images), "--model", str(other), "-o", address]) == 2


def test_bad_addresses_get_one_line(server: str, model: Path) -> None:
    with pytest.raises(UsageError, match="no index nothing_here"):
        PostgresIndex(with_table(server, "nothing_here"))
    with pytest.raises(UsageError, match="is not a valid table name"):
        PostgresIndex(with_table(server, "x;drop"))
    with pytest.raises(RunError, match="cannot reach the database"):
        PostgresIndex("postgresql://user@127.0.0.1:1/none")
    with pytest.raises(UsageError, match="--model"):
        lf.Searcher(with_table(server, "verbs"))


def test_a_changed_file_is_replaced_in_a_database(
    server: str, images: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = lf.load_embedder(model)
    store = PostgresIndex(with_table(server, "changed"), model=embedder.card)
    add_images(store, embedder, images_from_folder(images))
    file = sorted(images.rglob("*.png"))[0]
    draw(500).save(file)
    result = add_images(store, embedder, images_from_folder(images))
    assert (result.added, result.known, result.replaced, len(store)) == (1, 29, 1, 30)
    monkeypatch.chdir(images)
    assert store.remove("class0/") == 10
