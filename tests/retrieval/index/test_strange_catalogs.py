"""Catalogs and files of an index from a stranger: each ends in one line, and none is read without end."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.retrieval.index.conftest import draw, fill, make_model

from levelfield.core.errors import RunError
from levelfield.reports.web.search import SearchBox
from levelfield.reports.web.server import make_app
from levelfield.retrieval.embedders import load_embedder
from levelfield.retrieval.index import Searcher, add_images, images_from_folder, open_or_create_index
from levelfield.retrieval.index.result_page import write_result_page

ENDLESS = "with recursive c(n) as (select 1 union all select n + 1 from c)"
VIEW = f"create view items as {ENDLESS} select n as row, x'' content, '' name, '' label, 0 removed from c"
HEAVY = "length(hex(zeroblob(400000000)))"
RENAMED = "alter table items rename to others;"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made")
    embedder = load_embedder(make_model(directory / "model"))
    with open_or_create_index(directory / "index", directory / "model") as index:
        add_images(index, embedder, images_from_folder(fill(directory / "images", 6)))
    return directory / "index"


@pytest.fixture
def index(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "index"))


def execute(index: Path, script: str) -> None:
    database = sqlite3.connect(index / "catalog.sqlite")
    database.executescript(script)
    database.close()


@pytest.mark.parametrize(
    "script",
    [
        f"{RENAMED} {VIEW}",
        "begin;" + "".join(f"create table t{n} (x);" for n in range(150)) + f"commit; {RENAMED} {VIEW}",
        "create trigger t after update on items begin delete from items; end",
        "create virtual table f using fts5(x)",
        "create virtual table f using fts5(x); pragma writable_schema = on; "
        "update sqlite_master set sql = replace(sql, 'CREATE VIRTUAL', 'create/**/virtual') where name = 'f'",
        f"alter table items add column more integer generated always as ({HEAVY})",
    ],
    ids=["view", "view behind many tables", "trigger", "virtual", "hidden virtual", "computed"],
)
def test_a_catalog_that_computes_is_refused(index: Path, script: str) -> None:
    """Before, a view without an end kept every search waiting."""
    execute(index, script)
    with pytest.raises(RunError, match="views, triggers or computed columns"):
        Searcher(index)


def test_few_rows_cannot_claim_vectors_without_end(index: Path) -> None:
    execute(index, "update items set row = 1000000000 where row = 3")
    with (index / "vectors-00000.f32").open("r+b") as file:
        file.truncate(1 << 40)  # a file of holes
    with pytest.raises(RunError, match=r"damaged .6 of 1000000001 rows"):
        Searcher(index)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("update items set label = x'ff'", "not text"),
        ("update items set name = 5.5, label = 7", ""),  # SQLite makes text of numbers
        ("update items set row = 9223372036854775807 where row = 3", "is damaged"),
        ("insert into metadata values (0, 'a', x'ff', null)", "not text"),
    ],
)
def test_values_of_other_types_are_one_line(index: Path, script: str, problem: str) -> None:
    execute(index, script)
    if not problem:
        assert len(Searcher(index).search(draw(1), k=6).neighbors) == 6
        return
    with pytest.raises(RunError, match=problem):
        Searcher(index).search(draw(1), k=6)


def place_pipe(file: Path) -> None:
    os.mkfifo(file)


def place_device(file: Path) -> None:
    file.symlink_to("/dev/zero")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("place", [place_pipe, place_device])
def test_weights_that_never_end_are_refused(index: Path, place: Callable[[Path], None]) -> None:
    """Before, a pipe kept the command waiting, and a device filled the memory."""
    file = index / "model" / "weights.safetensors"
    file.unlink()
    place(file)
    with pytest.raises(RunError, match="a pipe or a device"):
        Searcher(index)


def test_weights_of_a_claimed_terabyte_are_refused(index: Path) -> None:
    file = index / "model" / "weights.safetensors"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)  # takes no room
    with pytest.raises(RunError, match="more than"):
        Searcher(index)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
def test_names_of_devices_and_odd_names_show_no_image(index: Path, tmp_path: Path) -> None:
    """Before, the thumbnail of /dev/zero filled the memory of the server, and a NUL was a raw error."""
    testclient = pytest.importorskip("starlette.testclient")
    os.mkfifo(tmp_path / "pipe.png")
    names = ["/dev/zero", str(tmp_path / "pipe.png"), "a\0b", str(tmp_path), "\x1b]0;x\x07<script>"]
    with sqlite3.connect(index / "catalog.sqlite") as database:
        for row, name in enumerate(names):
            database.execute("update items set name = ? where row = ?", (name, row))
    answer = Searcher(index).search(draw(1), k=6)
    write_result_page(tmp_path / "page.html", [draw(1)], answer)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>" not in text
    assert text.count("data:image/jpeg") == 2  # the query and the one image that exists
    box = SearchBox([index])
    try:
        client = testclient.TestClient(make_app([], search=box), base_url="http://localhost")
        for row in range(len(names)):
            found = client.get(f"/api/v1/indexes/0/images/{row}")
            assert (found.status_code, found.json()["error"]) == (
                404,
                "the image file is missing; index it again",
            )
    finally:
        box.close()
