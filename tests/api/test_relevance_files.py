"""``levelfield evaluate --relevance``: lists name what is relevant; the page marks by the lists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import levelfield as lf
from levelfield.cli._app import run_app
from levelfield.core.errors import UsageError

RANDOM = np.random.default_rng(3)
ITEMS = np.array([f"item{n}.png" for n in range(30)])
QUERIES = np.array([f"query{n}.png" for n in range(8)])
GALLERY: NDArray[np.float64] = RANDOM.normal(size=(30, 6))
ASKED = GALLERY[:8] + 0.6 * RANDOM.normal(size=(8, 6))
WORSE = GALLERY[:8] + 3.0 * RANDOM.normal(size=(8, 6))
RELEVANT = [[n, n + 10] for n in range(7)] + [[]]
IGNORED = [[n + 20] for n in range(8)]
LISTS = {
    "queries": [
        {
            "image": str(QUERIES[n]),
            "relevant": ITEMS[RELEVANT[n]].tolist(),
            "ignored": ITEMS[IGNORED[n]].tolist(),
            "group": f"tower {n // 2}",
        }
        for n in range(8)
    ]
}
METRICS = ("map_trapezoid", "mp_at_5")


def save(path: Path, embeddings: NDArray[np.float64], ids: NDArray[np.str_]) -> None:
    """Save rows in an order of their own."""
    order = np.random.default_rng(len(path.name)).permutation(len(ids))
    np.savez(path, embeddings=embeddings[order], ids=ids[order])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lists.json").write_text(json.dumps(LISTS))
    save(tmp_path / "new.npz", ASKED, QUERIES)
    save(tmp_path / "older.npz", WORSE, QUERIES)
    save(tmp_path / "items.npz", GALLERY, ITEMS)
    save(tmp_path / "items_again.npz", GALLERY, ITEMS)
    for name, asked in (("new", ASKED), ("older", WORSE)):
        both = np.concatenate([asked, GALLERY]), np.concatenate([QUERIES, ITEMS])
        save(tmp_path / f"{name}-together.npz", *both)
    return tmp_path


def command(*arguments: object) -> int:
    options = [part for metric in METRICS for part in ("-m", metric)]
    return run_app(["evaluate", *map(str, arguments), *options, "--quiet"])


def means(text: str) -> dict[str, dict[str, float]]:
    rows: list[dict[str, Any]] = json.loads(text)["models"]
    return {
        row["name"].split("-")[0]: {name: row["scores"][name]["mean"] for name in METRICS} for row in rows
    }


def test_names_in_files_score_as_rows_do(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = lf.evaluate(
        {"new": ASKED, "older": WORSE},
        gallery={"new": GALLERY, "older": GALLERY},
        relevant=RELEVANT,
        ignore=IGNORED,
        classes=np.arange(8) // 2,
        metrics=METRICS,
    )
    wanted = means(json.dumps(expected.as_dict()))
    galleries = ("--gallery", "items.npz", "--gallery", "items_again.npz")
    for arguments in (
        ("new.npz", "older.npz", *galleries),
        ("new-together.npz", "older-together.npz"),
    ):
        assert command(*arguments, "--relevance", "lists.json", "--json") == 0
        text = capsys.readouterr().out
        found = json.loads(text)
        for name, scores in means(text).items():
            assert scores == pytest.approx(wanted[name], abs=1e-12)
        assert (found["skipped"], found["classes"]) == (1, expected.as_dict()["classes"])
        assert found["pairs"][0]["p_value"] == pytest.approx(expected.as_dict()["pairs"][0]["p_value"])


def test_a_query_that_is_searched_does_not_find_itself(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = [{"image": str(ITEMS[n]), "relevant": ITEMS[[n, n + 10]].tolist()} for n in range(3)]
    (files / "own.json").write_text(json.dumps({"queries": lists, "gallery": ITEMS[:20].tolist()}))
    assert command("items.npz", "--relevance", "own.json", "--json") == 0
    found = means(capsys.readouterr().out)["items"]
    expected = lf.evaluate(
        GALLERY[:3],
        gallery=GALLERY[:20],
        relevant=[[10], [11], [12]],
        ignore=[[0], [1], [2]],
        metrics=METRICS,
    )
    assert found == pytest.approx(dict(expected), abs=1e-12)


def test_bad_names_are_one_line_and_the_others_go_on(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(files / "few.npz", ASKED[:5], QUERIES[:5])
    np.savez(files / "nameless.npz", embeddings=ASKED)
    twice = np.array([*QUERIES[:7], QUERIES[0]])
    save(files / "twice.npz", ASKED, twice)
    galleries = [part for _ in range(3) for part in ("--gallery", "items.npz")]
    for bad, message in (
        ("few.npz", r'few.npz has no item "query\d.png", lists.json lists it; embed all of its items'),
        ("nameless.npz", r'nameless.npz names no items; save their names as "ids"'),
        ("twice.npz", r'twice.npz holds "query0.png" as a name twice'),
        ("nowhere.npz", r"nowhere.npz does not exist"),
    ):
        assert command(bad, "new.npz", "older.npz", *galleries, "--relevance", "lists.json") == 1
        said = capsys.readouterr()
        assert re.search(message, said.err) and said.err.count("\n") == 1, said.err
        assert "new" in said.out
    for change, message in (
        ({"relevant": ["item99.png"]}, 'lists "item99.png" as relevant, which is not among the 30'),
        ({"relevant": ["item20.png"]}, "lists item20.png as relevant and as ignored"),
        ({"image": "query1.png"}, 'lists.json holds "query1.png" as a query twice'),
    ):
        queries = [{**LISTS["queries"][0], **change}, *LISTS["queries"][1:]]
        (files / "lists.json").write_text(json.dumps({"queries": queries}))
        assert command("new.npz", "--gallery", "items.npz", "--relevance", "lists.json") == 2
        said = capsys.readouterr()
        assert message in said.err and said.err.count("\n") == 1
    assert command("new.npz", "--labels", "x.txt", "--relevance", "lists.json") == 2
    assert "leave out --labels" in capsys.readouterr().err


def marks(page: str) -> dict[str, Any]:
    blocks = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    found: dict[str, Any] = next(json.loads(each) for each in blocks if '"relevant"' in each)
    return found


def test_the_page_marks_by_lists(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "photos").mkdir()
    for number, name in enumerate((*QUERIES, *ITEMS)):
        Image.new("RGB", (12, 8), (number, 9, 9)).save(files / "photos" / name)
    assert (
        command(
            *("new.npz", "older.npz", "--gallery", "items.npz", "--gallery", "items_again.npz"),
            *("--relevance", "lists.json", "--images", "photos", "--report", "out.html"),
        )
        == 0
    )
    page = (files / "out.html").read_text()
    assert "listed as relevant" in page
    shown = marks(page)
    order = np.random.default_rng(len("items.npz")).permutation(30).tolist()  # rows of the gallery's file
    near = {hit[0] for own in shown["methods"].values() for line in own.values() for hit in line}
    assert set(shown["relevant"]["0"]) == {8 + order.index(n) for n in RELEVANT[0]} & near != set()
    made = lf.evaluate(
        {"new": ASKED},
        gallery={"new": GALLERY},
        relevant=RELEVANT,
        ignore=IGNORED,
        metrics=METRICS,
        images=[f"photos/{name}" for name in (*QUERIES, *ITEMS)],
    )
    assert marks(made.write_report("own.html").read_text())["ignored"]["0"] in ([], [8 + 20])


def test_images_are_those_of_the_first_file_that_can_be_scored(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first file is damaged and has its rows in another order."""
    (files / "photos").mkdir()
    for number, name in enumerate(ITEMS):
        Image.new("RGB", (8, 8), (8 * number, 0, 0)).save(files / "photos" / name)
    labels = np.arange(30) % 6
    bad = GALLERY[::-1].copy()
    bad[4] = np.nan
    np.savez("a-1.npz", embeddings=bad, labels=labels[::-1], ids=ITEMS[::-1])
    np.savez("a-2.npz", embeddings=GALLERY, labels=labels, ids=ITEMS)
    np.savez("b.npz", embeddings=GALLERY + 1, labels=labels, ids=ITEMS)
    asked = ["evaluate", "a-1.npz", "a-2.npz", "b.npz", "--images", "photos", "--report", "c.html", "-q"]
    assert run_app(asked) == 1
    assert "left out: a-1.npz" in capsys.readouterr().err
    found = lf.evaluate(
        {"a": ["a-1.npz", "a-2.npz"], "b": "b.npz"}, images=[f"photos/{name}" for name in ITEMS]
    )
    again = found.write_report("d.html").read_text()
    images = [re.findall(r'id="images">(.*?)</script>', page) for page in (again, Path("c.html").read_text())]
    assert images[0] == images[1] != []


def test_lists_without_queries_are_named(tmp_path: Path) -> None:
    from levelfield.api import NamedLists

    (tmp_path / "none.json").write_text('{"queries": []}')
    with pytest.raises(UsageError, match="lists no queries"):
        NamedLists.read(tmp_path / "none.json", together=True)
