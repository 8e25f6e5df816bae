"""An index holds each image once, survives kills and full disks, and supports adding and removing."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.warm import WarmProcess, run_warm
from tests.oracles import bad_images
from tests.retrieval.index.conftest import draw, fill, make_model
from typer.testing import CliRunner

import levelfield as lf
from levelfield.cli._app import app, run_app
from levelfield.core.errors import RunError, UsageError
from levelfield.data import load
from levelfield.retrieval.index import (
    IndexingResult,
    LocalIndex,
    add_images,
    edit_index,
    images_from_csv,
    images_from_dataset,
    images_from_folder,
    open_index,
    open_or_create_index,
)


def build(images: Path, model: Path, out: Path, **options: int) -> IndexingResult:
    embedder = lf.load_embedder(model)
    with open_or_create_index(out, model, **options) as index:
        result = add_images(index, embedder, images_from_folder(images), threads=1)
        index.finish()
    return result


def content(index: LocalIndex) -> dict[str, tuple[str, np.ndarray]]:
    items = list(index.all_images())
    vectors = index.vectors(np.array([item.row for item in items], dtype=np.int64))
    return {item.name: (item.label, vector) for item, vector in zip(items, vectors, strict=True)}


def check_same(one: LocalIndex, two: LocalIndex) -> None:
    first, second = content(one), content(two)
    assert first.keys() == second.keys()
    for name, (label, vector) in first.items():
        assert second[name][0] == label
        np.testing.assert_allclose(second[name][1], vector, atol=1e-5)


def test_an_index_holds_the_models_vectors(images: Path, model: Path, tmp_path: Path) -> None:
    result = build(images, model, tmp_path / "index")
    assert (result.added, result.known, result.unreadable) == (30, 0, [])
    embedder = lf.load_embedder(model)
    for name, (label, vector) in content(open_index(tmp_path / "index")).items():
        assert Path(name).parent.name == label
        np.testing.assert_allclose(vector, embedder.embed(name)[0], atol=1e-5)


def test_every_image_finds_itself_first(images: Path, model: Path, tmp_path: Path) -> None:
    build(images, model, tmp_path / "index")
    searcher = lf.Searcher(tmp_path / "index")
    for file in sorted(images.rglob("*.png"))[::7]:
        answer = searcher.search(file, k=3)
        assert answer.neighbors[0].name == str(file)
        assert answer.neighbors[0].similarity == pytest.approx(1, abs=1e-4)
        similarities = [neighbor.similarity for neighbor in answer.neighbors]
        assert similarities == sorted(similarities, reverse=True)
        assert answer.found is None


def test_a_second_time_nothing_is_added(images: Path, model: Path, tmp_path: Path) -> None:
    build(images, model, tmp_path / "index")
    before = content(open_index(tmp_path / "index"))
    result = build(images, model, tmp_path / "index")
    assert (result.added, result.known) == (0, 30)
    assert content(open_index(tmp_path / "index")).keys() == before.keys()


def test_a_copy_under_another_name_is_known_by_its_content(images: Path, model: Path, tmp_path: Path) -> None:
    file = next(images.rglob("*.png"))
    for number in range(3):
        (images / f"copy{number}.png").write_bytes(file.read_bytes())
    result = build(images, model, tmp_path / "index")
    assert (result.added, result.known) == (30, 3)


def test_an_image_that_moved_gets_its_new_name(images: Path, model: Path, tmp_path: Path) -> None:
    build(images, model, tmp_path / "index")
    file = next(images.rglob("*.png"))
    (images / "elsewhere").mkdir()
    new = file.rename(images / "elsewhere" / "new.png")
    result = build(images, model, tmp_path / "index")
    assert (result.added, result.known, result.moved) == (0, 29, 1)
    found = content(open_index(tmp_path / "index"))
    assert str(file) not in found
    assert found[str(new)][0] == "elsewhere"


def test_adding_in_two_steps_gives_the_index_of_one(images: Path, model: Path, tmp_path: Path) -> None:
    build(images, model, tmp_path / "steps")
    fill(images, 20, first=30)
    assert build(images, model, tmp_path / "steps").added == 20
    build(images, model, tmp_path / "once")
    check_same(open_index(tmp_path / "steps"), open_index(tmp_path / "once"))


def test_removed_images_are_not_found_and_can_come_back(images: Path, model: Path, tmp_path: Path) -> None:
    build(images, model, tmp_path / "index")
    gone = sorted((images / "class1").iterdir())
    with edit_index(tmp_path / "index") as index:
        assert index.remove(str(images / "class1")) == 10
        assert index.remove(str(images / "class1")) == 0
        assert len(index) == 20
        assert [item.row for item in index.images(range(30))] == [item.row for item in index.all_images()]
    searcher = lf.Searcher(tmp_path / "index")
    names = {neighbor.name for neighbor in searcher.search(gone[0], k=30).neighbors}
    assert len(names) == 20
    assert not names & {str(file) for file in gone}
    result = build(images, model, tmp_path / "index")
    assert (result.added, result.known) == (10, 20)
    assert lf.Searcher(tmp_path / "index").search(gone[0], k=1).neighbors[0].name == str(gone[0])


def test_one_name_is_not_the_beginning_of_another(images: Path, model: Path, tmp_path: Path) -> None:
    fill(images, 22, classes=11, first=100)  # class1 and class10
    build(images, model, tmp_path / "index")
    with edit_index(tmp_path / "index") as index:
        index.remove(str(images / "class1"))
        labels = {item.label for item in index.all_images()}
    assert "class1" not in labels
    assert "class10" in labels


def test_an_open_index_sees_what_was_added_when_it_looks_again(
    images: Path, model: Path, tmp_path: Path
) -> None:
    build(images, model, tmp_path / "index")
    reader = open_index(tmp_path / "index")
    fill(images, 5, first=30)
    build(images, model, tmp_path / "index")
    assert len(reader) == 30
    reader.refresh()
    assert len(reader) == 35


def test_a_changed_file_is_not_found_by_its_old_image(images: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "index"
    build(images, model, out)
    searcher = lf.Searcher(out)
    first, second, third = sorted(images.rglob("*.png"))[:3]
    draw(500).save(first)
    result = build(images, model, out)
    assert (result.added, result.known, result.replaced) == (1, 29, 1)
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    result = build(images, model, out)
    assert (result.added, result.moved, result.replaced) == (0, 2, 0)
    first.write_bytes(third.read_bytes())
    result = build(images, model, out)
    assert (result.added, result.replaced) == (0, 1)
    assert len(open_index(out)) == 29
    for file in (second, third):  # by a searcher that was open all the time
        assert searcher.search(file, k=1).neighbors[0].name == str(file)
    with edit_index(out) as index:
        index.remove(str(second))
    assert str(second) not in {n.name for n in searcher.search(second, k=30).neighbors}


def test_a_folder_has_one_name_however_it_is_written(images: Path, model: Path, tmp_path: Path) -> None:
    build(tmp_path / "model" / ".." / "images", model, tmp_path / "index")
    with edit_index(tmp_path / "index") as index:
        assert index.remove(str(images / "class0")) == 10


def test_odd_names_are_harmless(
    images: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = images / "h[" / "x]"
    odd.mkdir(parents=True)
    names = [b"[bold]a.png", b"b\nb.png", b"c\x1b[31m.png", b"'; drop table items;--.png", b"caf\xe9.png"]
    for number, name in enumerate(names):
        draw(number + 50).save(tmp_path / "new.png")
        try:
            (tmp_path / "new.png").rename(odd / os.fsdecode(name))
        except OSError:
            pytest.skip("this file system takes no such names")
    assert run_app(["index", str(images), "--model", str(model), "-o", str(tmp_path / "index")]) == 0
    said = capsys.readouterr()
    assert "34 images added" in said.out
    assert said.err.strip().endswith("caf\\udce9.png: its name is not UTF-8; rename it")
    image = str(odd / "[bold]a.png")
    assert run_app(["search", str(tmp_path / "index"), image, "-k", "40"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    for part in ("[bold]a.png", "b\\nb.png", "\\x1b[31m"):
        assert part in "".join(line.rpartition("│ ")[2].strip(" │") for line in shown.splitlines())


def test_odd_images_go_in_and_unreadable_ones_are_reported(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for name, data in bad_images.readable().items():
        (folder / name).write_bytes(data)
    for name, (data, _) in bad_images.unreadable().items():
        (folder / name).write_bytes(data)
    (folder / "notes.txt").write_text("no image")
    (folder / "pipe.png").symlink_to("/dev/null")
    result = build(folder, model, tmp_path / "index")
    assert result.added == len(bad_images.readable())
    reasons = {Path(name).name: reason for name, reason in result.unreadable}
    assert reasons.pop("pipe.png").endswith("not a regular file; leave it out")
    assert reasons.keys() == bad_images.unreadable().keys()
    for name, (_, reason) in bad_images.unreadable().items():
        assert reason in reasons[name]
        assert str(folder / name) in reasons[name]
        assert "\n" not in reasons[name]


def test_a_csv_names_images_and_labels(images: Path, model: Path, tmp_path: Path) -> None:
    files = sorted(images.rglob("*.png"))[:4]
    table = images / "table.csv"
    rows = [f"{file.relative_to(images)},kind {n}" for n, file in enumerate(files)]
    table.write_text("\n".join(["path,label", *rows, "missing.png,lost"]))
    with open_or_create_index(tmp_path / "index", model) as index:
        result = add_images(index, lf.load_embedder(model), images_from_csv(table))
        labels = {item.name: item.label for item in index.all_images()}
    assert labels == {str(file): f"kind {n}" for n, file in enumerate(files)}
    assert "No such file" in result.unreadable[0][1]
    (tmp_path / "wrong.csv").write_text("file\nx.png")
    with pytest.raises(UsageError, match='no column "path"'):
        list(images_from_csv(tmp_path / "wrong.csv"))


def test_a_dataset_in_files_has_the_contents_of_its_files(images: Path, model: Path, tmp_path: Path) -> None:
    from levelfield.data import store, transforms

    build(images, model, tmp_path / "index")
    dataset = load("folder", root=str(images))
    store.prepare(dataset, tmp_path / "stores", resize=None)
    wanted = transforms.create("none", train=False)
    served = store.use_store(dataset, wanted, directory=tmp_path / "stores")
    assert served is not dataset
    with open_or_create_index(tmp_path / "index", model) as index:
        again = add_images(index, lf.load_embedder(model), images_from_dataset(dataset, pixels=served))
    assert (again.added, again.known) == (0, 30)
    with open_or_create_index(tmp_path / "fresh", model) as index:
        add_images(index, lf.load_embedder(model), images_from_dataset(dataset, pixels=served))
    check_same(open_index(tmp_path / "index"), open_index(tmp_path / "fresh"))


def test_a_dataset_without_files_is_named_by_its_rows(model: Path, tmp_path: Path) -> None:
    dataset = load("glyphs").select(np.arange(0, 40, 2))
    with open_or_create_index(tmp_path / "index", model) as index:
        result = add_images(index, lf.load_embedder(model), images_from_dataset(dataset))
        names = [item.name for item in index.all_images()]
    assert result.added + result.known == 20
    assert names[0] == "glyphs:0"


def test_two_writers_at_once_are_refused(images: Path, model: Path, tmp_path: Path) -> None:
    build(images, model, tmp_path / "index")
    with (
        open_or_create_index(tmp_path / "index", model),
        pytest.raises(RunError, match="another process is writing"),
        open_or_create_index(tmp_path / "index", model),
    ):
        pass


def test_another_model_is_refused(images: Path, model: Path, tmp_path: Path) -> None:
    build(images, model, tmp_path / "index")
    other = make_model(tmp_path / "other", seed=1)
    with (
        pytest.raises(UsageError, match=r"made with another model \(model 0, .*\) than model 1"),
        open_or_create_index(tmp_path / "index", other),
    ):
        pass
    with pytest.raises(UsageError, match="made with another model"):
        lf.Searcher(tmp_path / "index", model=other)


def test_a_directory_with_other_files_is_rejected(model: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter.txt").write_text("hello")
    with (
        pytest.raises(UsageError, match="holds other files"),
        open_or_create_index(tmp_path / "letters", model),
    ):
        pass


def test_a_tampered_model_inside_the_index_is_refused(images: Path, model: Path, tmp_path: Path) -> None:
    build(images, model, tmp_path / "index")
    weights = tmp_path / "index" / "model" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(RunError, match="tampered"):
        lf.Searcher(tmp_path / "index")


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda f: (f / "vectors-00000.f32").unlink(), "cannot read"),
        (lambda f: (f / "vectors-00000.f32").write_bytes(b"1234"), "is truncated"),
        (lambda f: (f / "catalog.sqlite").write_bytes(b"no database" * 100), "is damaged"),
        (lambda f: (f / "catalog.sqlite").unlink(), "has no catalog.sqlite"),
        (lambda f: (f / "index.json").write_text("{}"), "is not a levelfield index card"),
        (lambda f: (f / "index.json").unlink(), "is not an index"),
    ],
)
def test_a_damaged_index_gets_one_line(
    images: Path, model: Path, tmp_path: Path, damage: Callable[[Path], object], line: str
) -> None:
    build(images, model, tmp_path / "index")
    damage(tmp_path / "index")
    with pytest.raises((RunError, UsageError), match=line) as caught:
        lf.Searcher(tmp_path / "index").search(draw(0))
    assert "\n" not in str(caught.value)


def test_k_larger_than_the_index_gives_all_and_a_note(images: Path, model: Path, tmp_path: Path) -> None:
    build(images, model, tmp_path / "index")
    answer = lf.Searcher(tmp_path / "index").search(draw(0), k=1000)
    assert len(answer.neighbors) == 30
    assert answer.notes == ("the index holds only 30 images, fewer than the 1000 requested; all are shown",)
    with pytest.raises(UsageError, match="at least 1"):
        lf.Searcher(tmp_path / "index").search(draw(0), k=0)


def test_an_empty_index_says_so(model: Path, tmp_path: Path) -> None:
    with open_or_create_index(tmp_path / "index", model):
        pass
    with pytest.raises(UsageError, match="is empty"):
        lf.Searcher(tmp_path / "index").search(draw(0))


def test_several_images_are_one_query(images: Path, model: Path, tmp_path: Path) -> None:
    build(images, model, tmp_path / "index")
    searcher = lf.Searcher(tmp_path / "index")
    views = [draw(3), draw(4), draw(5)]
    vectors = searcher.embedder.embed(views).mean(0)
    wanted = searcher.search_vector(vectors / vectors.norm(), k=5)
    found = searcher.search(views, k=5).neighbors
    assert [n.row for n in found] == [n.row for n in wanted.neighbors]
    # The similarity of several images is their mean similarity, so that the threshold stays valid.
    alone = [{n.row: n.similarity for n in searcher.search(view, k=30).neighbors} for view in views]
    for neighbor in found:
        mean = np.mean([similarities[neighbor.row] for similarities in alone])
        assert neighbor.similarity == pytest.approx(mean, abs=1e-5)


FILLER = """
import sys
from pathlib import Path
import levelfield as lf
import levelfield.retrieval.index._build as build
from levelfield.retrieval.index import add_images, images_from_folder, open_or_create_index
build.CHUNK = 4
images, model, out = sys.argv[1:]
embedder = lf.load_embedder(model)
print("ready", flush=True)
with open_or_create_index(out, model) as index:
    add_images(index, embedder, images_from_folder(images), threads=1)
"""


def start_and_read_a_line(code: str, *arguments: Path) -> WarmProcess:
    """Start a process and wait for its first line."""
    reader, writer = os.pipe()
    process = WarmProcess(["-c", code, *map(str, arguments)], stdout=writer)
    os.close(writer)
    with os.fdopen(reader) as stdout:
        stdout.readline()
    return process


@pytest.mark.slow
def test_a_killed_writer_leaves_a_whole_index_and_the_next_one_goes_on(model: Path, tmp_path: Path) -> None:
    images = fill(tmp_path / "images", 150)
    build(images, model, tmp_path / "undisturbed")
    moments, kills, out = random.Random(0), 0, tmp_path / "killed"
    for _ in range(8):
        process = start_and_read_a_line(FILLER, images, model, out)
        process.wait(moments.uniform(0.0, 0.2) if kills else 0.0)  # the first kill comes before the end
        process.kill()
        if process.wait() == 0:
            break
        kills += 1
        if (out / "catalog.sqlite").exists():
            for name, (_, vector) in content(open_index(out)).items():
                np.testing.assert_allclose(np.linalg.norm(vector), 1, atol=1e-4, err_msg=name)
    build(images, model, out)
    assert kills
    check_same(open_index(tmp_path / "undisturbed"), open_index(out))


HALF_A_COMMIT = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("pragma cache_size = 1")  # changed pages go to the file before the commit
database.execute("begin immediate")
insert = "insert into items (row, content, name, label) values (?, ?, 'n', '')"
for row in range(10_000, 12_000):
    database.execute(insert, (row, b"%d" % row))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_reader_opens_what_a_writer_left_that_was_killed_within_a_commit(
    images: Path, model: Path, tmp_path: Path
) -> None:
    build(images, model, tmp_path / "index")
    before = content(open_index(tmp_path / "index"))
    catalog = tmp_path / "index" / "catalog.sqlite"
    run_warm(["-c", HALF_A_COMMIT, str(catalog)])
    assert catalog.with_name("catalog.sqlite-journal").stat().st_size
    assert content(open_index(tmp_path / "index")).keys() == before.keys()


def test_what_a_killed_writer_left_after_the_last_row_is_written_over(
    images: Path, model: Path, tmp_path: Path
) -> None:
    build(images, model, tmp_path / "index")
    with (tmp_path / "index" / "vectors-00000.f32").open("ab") as file:
        file.write(b"half a vector")
    fill(images, 5, first=30)
    build(images, model, tmp_path / "index")
    build(images, model, tmp_path / "fresh")
    check_same(open_index(tmp_path / "index"), open_index(tmp_path / "fresh"))


FULL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from levelfield.cli._app import run_app
import levelfield as lf
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(run_app(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("room", [100, 2_000, 25_000])
def test_a_full_disk_leaves_the_index_whole(model: Path, tmp_path: Path, room: int) -> None:
    """No file may grow beyond ``room`` bytes: card, vectors or catalog reach the limit first."""
    images = fill(tmp_path / "images", 60)
    out = tmp_path / "index"
    build(images, model, out)
    fill(images, 400, first=60)
    before = content(open_index(out))
    command = ["-c", FULL_DISK, str(room), "index", str(images), "--quiet"]
    done = run_warm([*command, "--model", str(model), "-o", str(out), "--exact-up-to", "100000"])
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: cannot")
    after = content(open_index(out))
    for name, (_, vector) in before.items():
        np.testing.assert_array_equal(after[name][1], vector)
    build(images, model, out)
    assert len(open_index(out)) == 460


def test_a_writer_that_waits_in_another_process_is_refused(images: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "index"
    build(images, model, out)
    hold = (
        "import sys, time\nfrom levelfield.retrieval.index import edit_index\n"
        "with edit_index(sys.argv[1]):\n    print('in', flush=True)\n    time.sleep(600)\n"
    )
    process = start_and_read_a_line(hold, out)
    try:
        assert lf.Searcher(out).search(draw(0), k=1).neighbors  # readers do not wait
        with pytest.raises(RunError, match="another process is writing"):
            build(images, model, out)
    finally:
        process.kill()
        process.wait()


def cli(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_verbs(images: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "index"
    (images / "bad.jpg").write_bytes(b"no image")
    facts = json.loads(cli("index", images, "--model", model, "-o", out, "--json"))
    assert (facts["added"], facts["pictures"], len(facts["unreadable"])) == (30, 30, 1)
    file = sorted(images.rglob("*.png"))[4]
    answer = json.loads(cli("search", out, file, "-k", "3", "--json", "--html", tmp_path / "page.html"))
    assert answer["neighbors"][0]["name"] == str(file)
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 4
    assert str(file) in page
    assert str(file) in cli("search", out, file, "-k", "1")
    assert "10 images removed, 20 left" in cli("index", "--remove", images / "class0", "-o", out)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["index", "nowhere/here", "--model", "MODEL"], "there is no folder or CSV file"),
        (["index", "IMAGES"], "needs images and --model"),
        (["index", "IMAGES", "--model", "nowhere"], "is not a model directory"),
        (["index", "EMPTY", "--model", "MODEL", "-o", "OUT"], "no images were found"),
        (["index", "BAD", "--model", "MODEL", "-o", "OUT"], "none of 1 images can be read"),
        (["index", "birds", "--model", "MODEL"], "unknown dataset"),
        (["index", "--remove", "x", "-o", "nowhere"], "is not an index"),
        (["search", "nowhere", "x.png"], "is not an index"),
    ],
)
def test_wrong_commands_get_one_line(  # noqa: PLR0917 - fixtures
    images: Path,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    line: str,
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "bad.png").write_bytes(b"x")
    places = {
        "MODEL": model,
        "IMAGES": images,
        "EMPTY": tmp_path / "empty",
        "BAD": tmp_path / "bad",
        "OUT": tmp_path / "out",
    }
    assert run_app([str(places.get(word, word)) for word in arguments]) in {1, 2}
    errors = [text for text in capsys.readouterr().err.splitlines() if text.startswith("error:")]
    assert len(errors) == 1
    assert line in errors[0]


def test_names_are_escaped_in_the_page(model: Path, tmp_path: Path) -> None:
    from levelfield.retrieval.index.result_page import write_result_page

    folder = tmp_path / "images" / "<script>alert(1)<"
    folder.mkdir(parents=True)
    draw(0).save(folder / "a.png")
    build(tmp_path / "images", model, tmp_path / "index")
    write_result_page(tmp_path / "page.html", [draw(0)], lf.Searcher(tmp_path / "index").search(draw(0)))
    assert "<script>" not in (tmp_path / "page.html").read_text()


def test_vectors_that_no_model_returns_are_refused(images: Path, model: Path, tmp_path: Path) -> None:
    build(images, model, tmp_path / "index")
    searcher = lf.Searcher(tmp_path / "index")
    good = searcher.embedder.embed(draw(3))[0]
    for vector, message in [
        (good[:-1], "the index holds vectors of size"),
        (good[None], "the index holds vectors of size"),
        (good * float("nan"), "not finite"),
        (good * 100, "has length 100; give a unit vector"),
        (good * 0, "has length 0; give a unit vector"),
    ]:
        with pytest.raises(UsageError, match=message):
            searcher.search_vector(vector)
    assert searcher.search_vector(good, k=1).neighbors[0].similarity <= 1.001


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
@pytest.mark.parametrize("name", ["vectors-00000.f32", "catalog.sqlite-wal", ".lock", "model"])
def test_a_strangers_index_does_not_lead_writers_to_other_files(
    name: str, images: Path, model: Path, tmp_path: Path
) -> None:
    index, mine = tmp_path / "index", tmp_path / "mine"
    index.mkdir()
    mine.write_bytes(b"mine")
    (index / "index.json").write_text("{}")
    (index / name).symlink_to(mine)
    with pytest.raises(UsageError, match="is a link, and writing would change its target"):
        build(images, model, index)
    assert mine.read_bytes() == b"mine"
