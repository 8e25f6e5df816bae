"""Embedding files of all kinds are read and scored."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest
import typer
from safetensors.numpy import save_file
from typer.testing import CliRunner

from levelfield.cli.evaluate import evaluate as command
from levelfield.core.errors import UsageError
from levelfield.metrics import evaluate
from levelfield.metrics.files import read_embeddings, read_labels

LABELS = np.arange(40) % 8
ROWS = (
    np.random.default_rng(0).normal(size=(8, 6))[LABELS] + np.random.default_rng(1).normal(size=(40, 6))
).astype(np.float32)


def write(folder, kind):
    file = folder / f"rows.{kind}"
    match kind:
        case "npz":
            np.savez(file, embeddings=ROWS, labels=LABELS)
        case "npy":
            np.save(file, ROWS)
            np.save(folder / "rows.labels.npy", LABELS)
        case "safetensors":
            save_file({"embeddings": ROWS, "labels": LABELS}, file)
        case "csv":
            lines = [",".join([*(f"x{n}" for n in range(6)), "label"])]
            lines += [
                ",".join([*map(repr, map(float, row)), f"class {label}"])
                for row, label in zip(ROWS, LABELS, strict=True)
            ]
            file.write_text("\n".join(lines))
        case "parquet":
            arrow = pytest.importorskip("pyarrow")
            from pyarrow import parquet

            parquet.write_table(
                arrow.table({"label": LABELS, **{f"x{n}": ROWS[:, n] for n in range(6)}}), file
            )
    return file


def run(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("kind", ["npz", "npy", "safetensors", "csv", "parquet"])
def test_every_kind_of_file_gives_the_same_scores(tmp_path, kind):
    result = run(write(tmp_path, kind), "--json", "-m", "map_at_r", "-m", "recall_at_2")
    assert result.exit_code == 0, result.output
    expected = dict(evaluate(ROWS, LABELS, metrics=("map_at_r", "recall_at_2")))
    assert json.loads(result.stdout)["scores"] == expected


def test_parquet_may_hold_lists(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table({"embedding": ROWS.tolist(), "label": LABELS}), tmp_path / "a.parquet")
    np.testing.assert_allclose(read_embeddings(tmp_path / "a.parquet").embeddings, ROWS)


@pytest.mark.parametrize("kind", ["npy", "txt", "csv"])
def test_labels_may_lie_in_a_file_of_their_own(tmp_path, kind):
    np.save(tmp_path / "plain.npy", ROWS)
    file = tmp_path / f"given.{kind}"
    if kind == "npy":
        np.save(file, LABELS)
    else:
        file.write_text("\n".join([*(["label"] if kind == "csv" else []), *map(str, LABELS)]))
    found = read_embeddings(tmp_path / "plain.npy", labels=file)
    assert isinstance(found.embeddings, np.memmap)
    assert found.labels is not None and list(found.labels.astype(int)) == list(LABELS)


def test_the_table_shows_scores_intervals_spread_and_notes(tmp_path):
    arguments = ("-m", "map_at_r", "-m", "nmi", "-m", "recall_at_99", "--quiet")
    result = run(write(tmp_path, "npz"), *arguments)
    assert result.exit_code == 0, result.output
    for text in ("40 queries", "map_at_r", "95% interval", "±", "note: recall_at_99"):
        assert text in result.stdout


def test_a_gallery_and_values_per_query(tmp_path):
    gallery = tmp_path / "gallery.npz"
    np.savez(gallery, embeddings=ROWS[8:], labels=LABELS[8:])
    out = tmp_path / "out.csv"
    result = run(write(tmp_path, "npz"), "--gallery", gallery, "--per-query", out)
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(out.open()))
    assert len(rows) == 40
    assert set(rows[0]) == {"query", "precision_at_1", "r_precision", "map_at_r"}
    assert not list(tmp_path.glob(".*"))


def refused(path, **options):
    with pytest.raises(UsageError) as caught:
        read_embeddings(path, **options)
    return str(caught.value)


def test_files_that_cannot_be_used_are_named(tmp_path):
    def text(name, content):
        (tmp_path / name).write_text(content)
        return tmp_path / name

    np.savez(tmp_path / "other.npz", vectors=ROWS)
    np.save(tmp_path / "objects.npy", np.array([{}, {}], dtype=object))
    assert "does not exist" in refused(tmp_path / "nowhere.npz")
    (tmp_path / "folder.npz").mkdir()
    assert "folder.npz is a directory; give a file" in refused(tmp_path / "folder.npz")
    assert "unknown extension" in refused(text("rows.xlsx", ""))
    assert 'save the embeddings as "embeddings"' in refused(tmp_path / "other.npz")
    assert "cannot be read" in refused(tmp_path / "objects.npy")
    assert "cannot be read" in refused(text("broken.npz", "no zip"))
    assert "not a safetensors file" in refused(text("broken.safetensors", "x"))
    assert "holds no rows" in refused(text("empty.csv", "x,label\n"))
    assert "line 3 has 1 fields" in refused(text("ragged.csv", "x,label\n1,a\n2\n"))
    assert "must be numbers" in refused(text("words.csv", "x,label\none,a\ntwo,b\n"))
    with pytest.raises(UsageError, match='no column "label"'):
        read_labels(text("l.csv", "x\n1\n"))


def test_parquet_troubles_are_named(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    (tmp_path / "broken.parquet").write_text("x")
    assert "not a parquet file" in refused(tmp_path / "broken.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "levelfield[parquet]" in refused(tmp_path / "broken.parquet")


def test_missing_labels_are_asked_for(tmp_path):
    np.save(tmp_path / "alone.npy", ROWS)
    result = run(tmp_path / "alone.npy")
    assert isinstance(result.exception, UsageError)
    assert "--labels" in str(result.exception)


def test_texts_that_are_no_csv_are_named(tmp_path):
    (tmp_path / "latin.csv").write_bytes(b"x,label\n1,caf\xe9\n")
    (tmp_path / "long.csv").write_text("x,label\n" + "9" * 200_000 + ",a\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    assert "save it as CSV in UTF-8" in refused(tmp_path / "latin.csv")
    assert "field larger than" in refused(tmp_path / "long.csv")
    with pytest.raises(UsageError, match="save it in UTF-8"):
        read_labels(tmp_path / "latin.txt")


def test_number_types_that_numpy_or_torch_lack(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_tensors

    labels = torch.tensor(LABELS)
    for kind in (torch.bfloat16, torch.float8_e4m3fn, torch.float16):
        rows = torch.tensor(ROWS).to(kind)
        save_tensors({"embeddings": rows, "labels": labels}, tmp_path / "rows.safetensors")
        found = read_embeddings(tmp_path / "rows.safetensors")
        assert np.array_equal(found.embeddings.astype(np.float32), rows.float().numpy())
    np.savez(tmp_path / "rows.npz", embeddings=ROWS.astype(np.longdouble), labels=LABELS)
    assert read_embeddings(tmp_path / "rows.npz").embeddings.dtype == np.float64


def bomb(folder, kind):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    count = 500
    if kind == "rows":
        table = arrow.table({"x": np.ones(400_000)})
    elif kind == "lists":
        table = arrow.table({"embedding": [np.ones(5000)] * 100})
    else:
        table = arrow.table({"path": ["a" * 5000] * count, "x": np.arange(count) + 1.0})
    parquet.write_table(table, folder / "x.parquet", compression="zstd")
    return folder / "x.parquet"


@pytest.mark.parametrize("kind", ["rows", "lists", "text"])
def test_a_small_parquet_file_does_not_fill_the_memory(tmp_path, kind, monkeypatch):
    pytest.importorskip("pyarrow")
    from levelfield.metrics import _parquet

    monkeypatch.setattr(_parquet, "MOST_UNPACKED", 1 << 20)
    monkeypatch.setattr(_parquet, "MOST_RATIO", 2)
    with pytest.raises(UsageError, match=r"unpacks to .* save it without compression"):
        read_embeddings(bomb(tmp_path, kind))


def test_damaged_parquet_is_one_line(tmp_path):
    file = write(tmp_path, "parquet")
    whole = file.read_bytes()
    for place in range(4, len(whole), 97):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            read_embeddings(file, labels=None)
        except UsageError as error:
            assert "\n" not in str(error)


def test_parquet_with_lists_texts_and_names(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = tmp_path / "rows.parquet"
    fixed = arrow.FixedSizeListArray.from_arrays(arrow.array(ROWS.ravel()), 6)
    for column in (list(map(list, ROWS)), fixed):
        names = [f"{number}.png" for number in range(40)]
        table = arrow.table({"embedding": column, "class": [f"c{n}" for n in LABELS], "path": names})
        parquet.write_table(table, file, row_group_size=7)
        found = read_embeddings(file)
        np.testing.assert_allclose(found.embeddings, ROWS, rtol=1e-6)
        assert found.labels is not None and found.labels.tolist() == [f"c{n}" for n in LABELS]
        assert found.ids is not None and found.ids.tolist() == names


@pytest.mark.parametrize("name", ["labels", "ids"])
def test_endless_texts_in_an_npz_file_are_refused(tmp_path, name):
    texts = {"labels": LABELS} | {name: np.array(["a" * 10_001] + ["b"] * 39)}
    np.savez_compressed(tmp_path / "x.npz", embeddings=ROWS, **texts)
    with pytest.raises(UsageError, match="shorten them"):
        read_embeddings(tmp_path / "x.npz")


def test_odd_columns_of_parquet_are_refused(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    one = arrow.array([1.0])
    tables = {
        "two columns of one name": arrow.Table.from_arrays([one, one], names=["x", "x"]),
        "lists as labels": arrow.table({"x": one, "label": [[1]]}),
    }
    for message, table in tables.items():
        parquet.write_table(table, tmp_path / "x.parquet")
        with pytest.raises(UsageError, match=message):
            read_embeddings(tmp_path / "x.parquet")
