"""``lf.evaluate`` compares models from arrays, files, functions and rankings; bad input is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from safetensors.numpy import save_file

import levelfield as lf
from levelfield.api import group_files
from levelfield.cli._app import run_app
from levelfield.core.errors import UsageError
from levelfield.reports import evaluation_text

LABELS = np.repeat([f"kind {n}" for n in range(24)], 10)
IDS = np.array([f"{row}.png" for row in range(240)])
CENTERS = np.repeat(np.random.default_rng(0).normal(size=(24, 12)), 10, axis=0)


def rows(seed: int, noise: float) -> NDArray[np.float64]:
    made: NDArray[np.float64] = CENTERS + noise * np.random.default_rng(seed).normal(size=CENTERS.shape)
    return made


GOOD, TWIN, BAD = rows(1, 0.8), rows(2, 0.8), rows(3, 1.6)


def save(path: Path, embeddings: NDArray[Any], labels: NDArray[Any] = LABELS, **more: NDArray[Any]) -> Path:
    arrays: dict[str, Any] = {"embeddings": embeddings, "labels": labels, **more}
    np.savez(path, **arrays)
    return path


def command(*arguments: object) -> int:
    return run_app(["evaluate", *map(str, arguments), "--quiet"])


def test_one_array_is_scored_as_before() -> None:
    assert dict(lf.evaluate(GOOD, LABELS)) == dict(lf.metrics.evaluate(GOOD, LABELS))


def test_the_result_reads_like_that_of_an_experiment() -> None:
    found = lf.evaluate({"old": (BAD, LABELS), "new": (GOOD, LABELS), "twin": (TWIN, LABELS)})
    assert set(found.best) == {"new", "twin"}
    assert found.verdict.startswith("Use ") and "old is worse for sure" in found.verdict
    scores = lf.evaluate(GOOD, LABELS, intervals=True)
    row = found.table.set_index("model").loc["new"]
    assert row["map_at_r"] == pytest.approx(scores["map_at_r"])
    assert (row["map_at_r.low"], row["map_at_r.high"]) == pytest.approx(scores.intervals["map_at_r"])
    assert len(found.pairs) == 3 and set(found.pairs["verdict"]) <= {"better", "undecided", "equivalent"}
    assert found.verdict in found._repr_html_() and "<table" in found._repr_html_()
    assert set(found.classes("new", "old")["name"]) <= set(LABELS)
    assert found.queries("new", "old")["difference"].abs().is_monotonic_decreasing
    assert json.loads(json.dumps(found.as_dict()))["classes"] == 24
    assert "new" in repr(found)


def test_models_may_be_seeds_files_and_functions(tmp_path: Path) -> None:
    file = save(tmp_path / "b.npz", BAD)
    found = lf.evaluate(
        {"seeds": [(rows(n, 0.8), LABELS) for n in (1, 2, 4)], "file": file, "call": lambda x: x * 2.0},
        labels=LABELS,
        inputs=GOOD,
    )
    table = found.table.set_index("model")
    assert table.loc["seeds", "seeds"] == 3
    assert table.loc["call", "map_at_r"] == pytest.approx(lf.evaluate(GOOD, LABELS)["map_at_r"])
    assert table.loc["file", "map_at_r"] == pytest.approx(lf.evaluate(BAD, LABELS)["map_at_r"])


def test_each_model_may_have_a_gallery() -> None:
    own = {"a": (GOOD[::2], LABELS[::2]), "b": (BAD[::2], LABELS[::2])}
    held = {"a": (GOOD[1::2], LABELS[1::2]), "b": (BAD[1::2], LABELS[1::2])}
    found = lf.evaluate(own, gallery=held, metrics=("precision_at_1",))
    expected = lf.evaluate(
        GOOD[::2], LABELS[::2], gallery=GOOD[1::2], gallery_labels=LABELS[1::2], metrics=("precision_at_1",)
    )
    assert found.table.set_index("model").loc["a", "precision_at_1"] == pytest.approx(
        expected["precision_at_1"]
    )
    with pytest.raises(UsageError, match="mapping from model names to galleries"):
        lf.evaluate(own, gallery=GOOD)
    with pytest.raises(UsageError, match="1 seeds but 0 galleries"):
        lf.evaluate(own, gallery={"a": held["a"]})


def test_rankings_are_compared_like_embeddings() -> None:
    def ranked(embeddings: NDArray[Any]) -> list[list[str]]:
        unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
        similarity = unit @ unit.T
        np.fill_diagonal(similarity, -np.inf)
        return [[IDS[k] for k in order[:-1]] for order in np.argsort(-similarity, axis=1)]

    lists = {"a": ranked(GOOD), "b": ranked(BAD)}
    relevant = [set(IDS[own == LABELS]) - {name} for own, name in zip(LABELS, IDS, strict=True)]
    found = lf.evaluate(rankings=lists, relevant=relevant, labels=LABELS)
    same = lf.evaluate({"a": (GOOD, LABELS), "b": (BAD, LABELS)})
    assert found.verdict == same.verdict
    by_call = lf.evaluate(
        rankings={"a": lambda row: lists["a"][row], "b": lists["b"]},
        relevant=relevant,
        classes=LABELS,
        inputs=range(240),
    )
    assert by_call.verdict == same.verdict
    assert "too sure" in lf.evaluate(rankings=lists, relevant=relevant).comparison.caveats[0]
    known = dict(zip(IDS, LABELS, strict=True))
    by_class = lf.evaluate(rankings=lists, labels=LABELS, gallery_labels=known, metrics=("precision_at_1",))
    assert by_class.best == ("a",)
    # the query itself is of its class, but is no answer
    without = lf.evaluate(
        rankings=lists, labels=LABELS, gallery_labels=known, ignore=[[name] for name in IDS]
    )
    assert without.as_dict()["models"] == same.as_dict()["models"]
    strange = {**lists, "c": [["nowhere"]] * 240}
    found = lf.evaluate(rankings=strange, relevant=relevant, labels=LABELS, gallery_labels=known)
    assert "'nowhere'" in found.left_out["c"] and found.best == ("a",)
    with pytest.raises(UsageError, match="what is relevant"):
        lf.evaluate(rankings=lists)
    with pytest.raises(UsageError, match="rankings are of type list; give a mapping"):
        lf.evaluate(rankings=lists["a"], relevant=relevant)  # type: ignore[call-overload]  # wrong on purpose
    with pytest.raises(UsageError, match="relevant, query 0, holds 'x'"):
        lf.evaluate(rankings=lists, relevant=[["x"]] * 240, gallery_labels=known)


def second_batch_is_smaller(batch: NDArray[Any]) -> NDArray[Any]:
    return batch if len(batch) == 256 else batch[:, :5]


def failing(batch: NDArray[Any]) -> NDArray[Any]:
    raise MemoryError("no room")


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ((GOOD[:100], LABELS[:100]), "bad has 100 rows, a has 240"),
        ((GOOD, LABELS[::-1]), 'disagree on the label of row 0 .* or save "ids" in all files'),
        ((GOOD, np.array(["x", *LABELS[1:]])), r"row 0 \(x, kind 0\); embed the same items"),
        ((GOOD, LABELS[:9]), "labels of shape"),
        ((np.full_like(GOOD, np.nan), LABELS), "bad: .*NaN"),
        ((GOOD, LABELS, 3), "tuple of 3"),
        (GOOD, "bad holds no labels"),
        (([[1.0, 2.0], [3.0]], [0, 1]), "bad is not a table of numbers"),
        ((np.array(3.0), np.array([0])), "bad holds no table of numbers"),
        ("nowhere.npz", "bad: nowhere.npz does not exist"),
        (failing, "bad is a function; give its inputs"),
    ],
)
def test_a_bad_model_is_left_out_with_one_line(model: Any, reason: str) -> None:
    found = lf.evaluate({"a": (GOOD, LABELS), "bad": model, "b": (BAD, LABELS)})
    assert set(found.table["model"]) == {"a", "b"}
    with pytest.raises(UsageError, match=reason):
        raise UsageError(found.left_out["bad"])
    assert "bad was left out" in found.verdict
    with pytest.raises(UsageError, match=reason):
        lf.evaluate({"a": (GOOD, LABELS), "bad": model})  # nothing is left to compare


def test_functions_that_fail_are_named() -> None:
    twice = np.concatenate([GOOD, GOOD + 0.01])
    labels = np.concatenate([LABELS, LABELS])
    models = {
        "a": twice,
        "small": second_batch_is_smaller,
        "fails": failing,
        "b": np.concatenate([BAD, TWIN]),
    }
    found = lf.evaluate(models, labels=labels, inputs=twice)
    assert "5 numbers per input for inputs 256 and later, 12 before" in found.left_out["small"]
    assert "fails failed on the inputs from 0 on: MemoryError: no room" in found.left_out["fails"]


def test_copies_and_single_items_are_noted() -> None:
    labels = LABELS.copy()
    labels[0] = "alone"
    copied = GOOD.copy()
    copied[5] = copied[6]
    found = lf.evaluate({"a": (copied, labels), "b": (BAD, labels)})
    assert any("a: 1 rows repeat another row exactly" in line for line in found.comparison.caveats)
    assert any("1 queries without a relevant item" in line for line in found.comparison.caveats)
    assert found.as_dict()["skipped"] == 1


def test_names_decide_which_files_are_seeds() -> None:
    def groups(*names: str) -> dict[str, int]:
        return {name: len(files) for name, files in group_files([Path(n) for n in names]).items()}

    assert groups("a-1.npz", "a-2.npz", "b.npz") == {"a": 2, "b": 1}
    assert groups("a_0.npz", "a_1.npz") == {"a": 2}
    assert groups("resnet-18.npz", "resnet-50.npz") == {"resnet-18": 1, "resnet-50": 1}
    assert groups("a-seed7.npz", "a-seed42.npz") == {"a": 2}
    assert groups("a-1.npz", "a-2.npz", "a.npz") == {"a-1": 1, "a-2": 1, "a": 1}
    assert groups("x/m.npz", "y/m.npz") == {"x/m": 1, "y/m": 1}
    assert groups("v1.npz", "v2.npz") == {"v1": 1, "v2": 1}, "versions are not seeds"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "new.npz", GOOD, paths=IDS)
    save_file({"embeddings": BAD, "labels": np.repeat(np.arange(24), 10)}, tmp_path / "numbers.safetensors")
    np.save("old.npy", BAD)
    Path("old.labels.txt").write_text("\n".join(LABELS))
    return tmp_path


def test_files_of_all_kinds_are_compared(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = {"embedding": TWIN.tolist(), "label": LABELS, "path": IDS}
    parquet.write_table(arrow.table(table), files / "twin.parquet")
    assert command("new.npz", "old.npy", "twin.parquet", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    expected = lf.evaluate({"new": (GOOD, LABELS), "old": (BAD, LABELS), "twin": (TWIN, LABELS)})
    assert found["verdict"] == expected.verdict
    gaps = {(pair["first"], pair["second"]): pair["difference"] for pair in found["pairs"]}
    wanted = {(pair.first, pair.second): pair.difference for pair in expected.comparison.pairs}
    assert gaps == pytest.approx(wanted)
    assert command("new.npz", "old.npy") == 0
    said = capsys.readouterr().out
    for text in ("Use new: it beats every other model", "## Which models differ", "Classes that differ most"):
        assert text in said
    assert "is found 4 times in 5" in said and "MAP@R" in said


def test_a_file_that_does_not_fit_is_left_out(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("new.npz", "numbers.safetensors", "old.npy") == 1
    said = capsys.readouterr()
    assert "left out: numbers.safetensors and new.npz disagree on the label of row 0 (0, kind 0)" in said.err
    assert "Use new" in said.out
    assert command("new.npz", "numbers.safetensors") == 2
    assert capsys.readouterr().err.startswith("error: numbers.safetensors and new.npz disagree")


def test_rows_are_put_in_order_by_their_ids(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = np.random.default_rng(5).permutation(240)
    save(files / "moved.npz", BAD[order], LABELS[order], paths=IDS[order])
    assert command("new.npz", "moved.npz", "--json") == 0
    moved = json.loads(capsys.readouterr().out)
    assert "The rows of moved.npz were put in the order of new.npz, by their ids." in moved["caveats"]
    assert command("new.npz", "old.npy", "--json") == 0
    straight = json.loads(capsys.readouterr().out)
    assert moved["pairs"][0]["p_value"] == pytest.approx(straight["pairs"][0]["p_value"])
    save(files / "other.npz", BAD, paths=np.array(["x.png", *IDS[1:]]))
    assert command("new.npz", "other.npz") == 2
    assert 'other.npz has no item "0.png", new.npz has one' in capsys.readouterr().err
    save(files / "twice.npz", BAD, paths=np.array(["1.png", *IDS[1:]]))
    assert command("new.npz", "twice.npz") == 2
    assert 'holds the id "1.png" twice' in capsys.readouterr().err


@pytest.mark.slow
def test_seeds_by_name_and_by_group(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2, 3):
        save(files / f"late-{number}.npz", rows(10 + number, 1.0))
    late = [f"late-{number}.npz" for number in (1, 2, 3)]
    assert command("new.npz", *late) == 0
    assert "Files of one model are its seeds (late: 3 seeds)" in capsys.readouterr().out
    assert command("new.npz", "--group", "other=" + ",".join(late), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["name"]: each["seeds"] for each in found["models"]} == {"new": 1, "other": 3}
    assert command("new.npz", *late, "--no-groups", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["models"]) == 4
    for wrong, message in (
        (["--group", "late"], "is not NAME=FILE,FILE"),
        (["new.npz", "new.npz"], "new.npz is given twice"),
        (["--group", "new=old.npy,late-1.npz", "new.npz"], 'are called "new"'),
        ([], "nothing to score"),
        (["new.npz", "old.npy", "--gallery", "old.npy"], "1 galleries for 2 files"),
        (["new.npz", "old.npy", "--per-query", "x.csv"], "work for one FILE"),
    ):
        assert command(*wrong) == 2
        assert message in capsys.readouterr().err


def test_the_page_has_the_pieces_of_a_report(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "images").mkdir()
    for number, name in enumerate(IDS):
        Image.new("RGB", (30, 20), (number, 9, 9)).save(files / "images" / name)
    (files / "images" / IDS[0]).write_bytes(b"no image")
    save(files / "twin.npz", TWIN)
    assert command("new.npz", "old.npy", "twin.npz", "--images", "images", "--report", "out.html") == 0
    page = (files / "out.html").read_text()
    for text in (
        'id="verdict"',
        'class="dots"',
        'id="differences"',
        'class="card gallery"',
        "models differ most",
        "Queries that differ most",
        "Content-Security-Policy",
        "<svg",
    ):
        assert text in page, text
    assert command("new.npz", "--report", "one.html") == 0
    assert "new scores " in (files / "one.html").read_text()
    capsys.readouterr()
    assert command("old.npy", "new.npz", "--images", "images") == 2
    assert "names no images" in capsys.readouterr().err
    save(files / "evil.npz", GOOD, paths=np.array(["../../secret.png", *IDS[1:]]))
    assert command("evil.npz", "old.npy", "--images", "images", "--report", "evil.html") == 2
    assert "which is outside images" in capsys.readouterr().err and not (files / "evil.html").exists()


def test_names_on_the_page_are_text(tmp_path: Path) -> None:
    labels = np.array([f"<b>{label}</b>" for label in LABELS])
    page = lf.evaluate({"<script>x</script>": (GOOD, labels), "b": (BAD, labels)}).write_report(
        tmp_path / "x.html"
    )
    text = page.read_text()
    assert "<script>x</script>" not in text and "<b>kind" not in text and "&lt;b&gt;kind" in text


def test_labels_of_other_types_are_the_same_labels() -> None:
    numbers = np.repeat(np.arange(24), 10)
    found = lf.evaluate(
        {
            "int": (GOOD, numbers),
            "float": (BAD, numbers.astype(float)),
            "text": (TWIN, numbers.astype(str)),
            "bytes": (GOOD, numbers.astype("S")),
            "list": (TWIN.tolist(), numbers.tolist()),
        }
    )
    assert not found.left_out


def test_too_few_lists_are_named() -> None:
    with pytest.raises(UsageError, match="relevant has 3 lists but there are 240 queries"):
        lf.evaluate({"a": GOOD, "b": BAD}, relevant=[[1], [0], [3]])


def test_rankings_beside_embeddings_are_refused() -> None:
    with pytest.raises(UsageError, match="take the place of embeddings"):
        lf.evaluate(GOOD, rankings={"a": [[1]]})


def test_compare_points_to_evaluate(files: Path) -> None:
    with pytest.raises(UsageError, match="levelfield evaluate A B"):
        lf.compare(files / "new.npz")


def test_the_old_bootstrap_option_says_that_it_has_no_effect(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("new.npz", "--bootstrap", "100", "--json") == 0
    said = capsys.readouterr()
    assert "--bootstrap has no effect" in said.err
    found = json.loads(said.out)["intervals"]["map_at_r"]
    assert found == pytest.approx(lf.evaluate(GOOD, LABELS, intervals=True).intervals["map_at_r"])


@pytest.mark.slow
def test_files_from_strangers_are_read_without_trust(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = save(tmp_path / "good.npz", GOOD)
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(good.read_bytes()[:2000])
    objects = tmp_path / "objects.npz"
    np.savez(objects, embeddings=GOOD, labels=np.array([{} for _ in LABELS], dtype=object))
    bomb = tmp_path / "bomb.npz"
    np.savez_compressed(
        bomb, embeddings=np.zeros((1 << 16, 1 << 11), dtype=np.uint8), labels=np.zeros(1 << 16)
    )
    monkeypatch.setattr("levelfield.metrics.files.MOST_UNPACKED", 1 << 20)
    assert command(good, bomb) == 2
    assert "unpacks to" in capsys.readouterr().err
    for bad in (damaged, objects):
        assert command(good, bad) == 2
        said = capsys.readouterr().err
        assert "cannot be read" in said and said.count("\n") == 1


def test_markdown_of_a_comparison_shows_names_as_text() -> None:
    names = ("<img src=x onerror=alert(1)>", "[a](http://b)\x1b]0;c\x07", "d|e")
    labels = [names[row % 3] for row in range(len(GOOD))]
    found = lf.evaluate({names[0]: (GOOD, labels), names[1]: (BAD, labels)}, cluster_seeds=1)
    text = evaluation_text(found.comparison)
    assert "<img" not in text and "](" not in text and "\x1b" not in text and "\x07" not in text
    assert "&lt;img src=x onerror=alert(1)>" in text and r"d\|e" in text
