"""Filters return what a slow loop over all images returns; narrow ones are exact; no text becomes SQL."""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.retrieval.index.conftest import draw, fill, make_model
from typer.testing import CliRunner

import levelfield as lf
from levelfield.cli._app import app, run_app
from levelfield.core.errors import UsageError
from levelfield.retrieval.index import images_from_folder, open_index, parse_filters, update_index

COUNT = 40
CAMERAS = ["Nikon", "Canon", "", "a'); drop table items; --"]


def cells(number: int) -> dict[str, str]:
    """Return the metadata of an image; some cells are empty."""
    iso = ["100", "400.0", "1e3", "auto"][number % 4]
    return {
        "camera": CAMERAS[number % 4],
        "iso": iso,
        "taken": f"{2018 + number % 5}-0{1 + number % 7}-11",
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in two folders, with a table."""
    root = tmp_path_factory.mktemp("filters")
    make_model(root / "model")
    fill(root / "photos" / "rome", COUNT // 2)
    fill(root / "photos" / "oslo rome", COUNT // 2, first=COUNT // 2)
    with (root / "table.csv").open("w", newline="") as stream:
        table = csv.DictWriter(stream, ["path", "camera", "iso", "taken"])
        table.writeheader()
        for file in sorted((root / "photos").rglob("*.png")):
            table.writerow({"path": str(file.relative_to(root)), **cells(int(file.stem))})
        table.writerow({"path": "photos/nowhere.png", "camera": "Leica"})
    return root


def index(root: Path, out: str) -> None:
    embedder = lf.load_embedder(root / "model")
    updated = update_index(
        out,
        root / "model",
        embedder,
        images_from_folder(root / "photos"),
        metadata=[root / "table.csv"],
        threads=1,
    )
    assert (updated.described, updated.undescribed) == (COUNT, 1)


@pytest.fixture(scope="module")
def local(root: Path) -> lf.Searcher:
    index(root, str(root / "index"))
    return lf.Searcher(root / "index")


@pytest.fixture(scope="module")
def database(root: Path) -> Iterator[lf.Searcher]:
    pytest.importorskip("psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pytest.importorskip("pgserver").get_server(root / "postgres")
    index(root, server.get_uri())
    searcher = lf.Searcher(server.get_uri(), model=root / "model")
    yield searcher
    searcher.store.close()
    server.cleanup()


def is_true(column: str, operation: str, wanted: str, file: Path) -> bool:
    """Return the truth of one condition for one image: the slow oracle."""
    number = int(file.stem)
    if column == "label":
        held: str | None = file.parent.parent.name
    elif column == "folder":
        return (wanted in file.parts[:-1]) == (operation == "=")
    else:
        held = cells(number)[column] or None
    if held is None:
        return operation == "!="
    try:
        one, two = float(held), float(wanted)
        pair: tuple[Any, Any] = (one, two)
    except ValueError:
        pair = (held, wanted) if operation in {"=", "!="} else (held[: len(wanted)], wanted)
        if operation not in {"=", "!="} and _is_number(held):
            return False
    left, right = pair
    return bool(
        {
            "=": left == right,
            "!=": left != right,
            ">=": left >= right,
            "<=": left <= right,
            ">": left > right,
            "<": left < right,
        }[operation]
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


CASES = [
    ["label=rome"],
    ["label!=rome"],
    ["folder=rome"],
    ["folder!=class1"],
    ["camera=Nikon"],
    ["camera!=Nikon"],
    ["camera=Nikon", "camera=Canon"],
    ["camera=a'); drop table items; --"],
    ["iso=400"],
    ["iso>=400"],
    ["iso<1000"],
    ["iso>100", "iso<=400", "label=rome"],
    ["taken>=2020"],
    ["taken<=2020"],
    ["taken>2020", "taken<=2021-03"],
    ["taken<2018"],
    ["camera=' or 1=1 --"],
]


@pytest.mark.slow
@pytest.mark.parametrize("conditions", CASES, ids=" ".join)
@pytest.mark.parametrize("where", ["local", "database"])
def test_a_filter_finds_what_a_slow_loop_finds(
    root: Path, where: str, conditions: list[str], request: pytest.FixtureRequest
) -> None:
    searcher: lf.Searcher = request.getfixturevalue(where)
    parsed = parse_filters(conditions)
    wanted = {
        str(file)
        for file in (root / "photos").rglob("*.png")
        if all(any(is_true(c.column, c.operation, value, file) for value in c.values) for c in parsed)
    }
    everything = searcher.search(draw(999), k=COUNT).neighbors
    ranked = [each for each in everything if each.name in wanted]
    found = searcher.search(draw(999), k=5, filters=conditions).neighbors
    assert [each.name for each in found] == [each.name for each in ranked[:5]]
    np.testing.assert_allclose(
        [each.similarity for each in found], [each.similarity for each in ranked[:5]], atol=1e-5
    )
    assert len(searcher.search(draw(999), k=COUNT, filters=conditions).neighbors) == len(wanted)


def test_neighbors_carry_their_metadata(local: lf.Searcher) -> None:
    found = local.search(draw(1), k=1).neighbors[0]
    assert {key: found.metadata[key] for key in ("camera", "iso", "taken")} == cells(1)
    assert len(found.metadata["date"]) == 19


def test_below_the_minimum_similarity_nothing_is_shown(local: lf.Searcher) -> None:
    every = local.search(draw(3), k=COUNT).neighbors
    limit = every[4].similarity
    kept = local.search(draw(3), k=COUNT, min_similarity=limit)
    assert [each.name for each in kept.neighbors] == [each.name for each in every if each.similarity >= limit]
    assert any("minimum similarity" in note for note in kept.notes)


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        (["camra=Nikon"], "camera"),
        (["Nikon"], "not a filter"),
        (["=x"], "not a filter"),
        (["label>a"], "= or !="),
        (["label=" + "x" * 2000], "characters"),
        (["label=a"] * 100, "at most"),
    ],
)
def test_a_bad_filter_gets_one_line(local: lf.Searcher, filters: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        local.search(draw(0), filters=filters)
    assert "\n" not in str(caught.value)


def test_the_table_can_be_given_again_and_sets_labels(root: Path, tmp_path: Path) -> None:
    images, model, out = fill(tmp_path / "photos", 6), root / "model", tmp_path / "index"
    first = sorted(images.rglob("*.png"))[0]
    verb = ["index", str(images), "--model", str(model), "-o", str(out)]
    assert run_app(verb) == 0
    for person, label in (("Ada", "cat"), ("Bob", "dog")):
        (tmp_path / "people.csv").write_text(f"path,person,label\n{first},{person},{label}\n")
        answer = CliRunner().invoke(app, [*verb, "--metadata", str(tmp_path / "people.csv")])
        assert answer.exit_code == 0 and "metadata of 1 images stored" in answer.output
        found = lf.Searcher(out).search(first, filters=[f"person={person}", f"label={label}"]).neighbors
        assert [each.name for each in found] == [str(first)]
    assert not lf.Searcher(out).search(first, filters=["person=Ada"]).neighbors
    run_app(["index", "--remove", str(first), "-o", str(out)])
    with pytest.raises(UsageError, match="no column"):  # its values went with the image
        lf.Searcher(out).search(draw(9), filters=["person=Bob"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,a\nx,1\n", "path"),
        ("path,folder\nx,1\n", "folder"),
        ("path,a=b\nx,1\n", "without ="),
        ("", "path"),
    ],
)
def test_a_bad_table_gets_one_line(
    root: Path, tmp_path: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.csv").write_text(text)
    images = fill(tmp_path / "photos", 1)
    arguments = ["index", str(images), "--model", str(root / "model"), "-o", str(tmp_path / "index")]
    assert run_app([*arguments, "--metadata", str(tmp_path / "bad.csv")]) == 2
    assert words in capsys.readouterr().err


def test_the_date_is_when_the_photo_was_taken_or_else_when_it_changed(root: Path, tmp_path: Path) -> None:
    images = tmp_path / "photos"
    images.mkdir()
    tags = Image.Exif()
    tags.get_ifd(0x8769)[0x9003] = "2001:02:03 04:05:06"
    draw(1).save(images / "taken.jpg", exif=tags)
    draw(2).save(images / "changed.png")
    os.utime(images / "changed.png", (86400 * 365, 86400 * 365))
    run_app(["index", str(images), "--model", str(root / "model"), "-o", str(tmp_path / "index")])
    searcher = lf.Searcher(tmp_path / "index")
    dates = {Path(each.name).name: each.metadata["date"] for each in searcher.search(draw(1)).neighbors}
    assert dates == {"taken.jpg": "2001-02-03 04:05:06", "changed.png": "1971-01-01 00:00:00"}
    assert len(searcher.search(draw(1), filters=["date<=1971"]).neighbors) == 1


def test_a_filter_of_few_images_is_exact_in_an_approximate_index(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    embedder, model = lf.load_embedder(root / "model"), root / "model"
    images = fill(tmp_path / "photos", 120, classes=4)
    update_index(
        str(tmp_path / "index"), model, embedder, images_from_folder(images), exact_up_to=50, threads=1
    )
    store = open_index(tmp_path / "index")
    assert store.card.approximate is not None
    held = list(store.all_images())
    vectors = store.vectors(np.array([each.row for each in held]))
    query = embedder.embed(draw(777))[0]
    for label, count in (("class1", 30), ("class2", 30)):
        wanted = sorted(
            (-float(v @ query.numpy()), i.row) for i, v in zip(held, vectors, strict=True) if i.label == label
        )
        found = lf.Searcher(tmp_path / "index").search_vector(query, k=count, filters=[f"label={label}"])
        assert {each.row for each in found.neighbors} == {row for _, row in wanted}
        values = [each.similarity for each in found.neighbors]  # near ties may change places
        np.testing.assert_allclose(values, [-value for value, _ in wanted], atol=1e-6)
    broad = lf.Searcher(tmp_path / "index").search_vector(query, k=90, filters=["label!=class1"])
    assert {each.label for each in broad.neighbors} == {"class0", "class2", "class3"}
