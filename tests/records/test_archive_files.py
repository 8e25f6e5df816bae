"""Archives come from strangers: a damaged or hostile one is one clear line, and nothing else is read."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save
from tests.helpers.archives import edit_lines, fit_manifest

from levelfield.analysis import verify
from levelfield.api import archive
from levelfield.cli._app import run_app
from levelfield.core.errors import LevelfieldError
from levelfield.records import Store
from levelfield.records._record_files import kind_of

SCORES = "class-scores.safetensors"


@pytest.fixture(scope="module")
def packed(_finished_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive with compressed files; never change it."""
    out = tmp_path_factory.mktemp("archive") / "packed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("levelfield.records._archive_writer.COMPRESS_ABOVE", 0)
        archive(_finished_tiny, out)
    return out


@pytest.fixture
def own(packed: Path, tmp_path: Path) -> Path:
    """Archive of the test's own."""
    return Path(shutil.copytree(packed, tmp_path / "own"))


def cut(name: str) -> Callable[[Path], None]:
    return lambda root: os.truncate(root / name, (root / name).stat().st_size // 2)


def replace_with(name: str, data: bytes) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        (root / name).write_bytes(data)

    return change


def manifest(**values: Any) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        found = json.loads((root / "archive.json").read_text())
        (root / "archive.json").write_text(json.dumps(found | values))

    return change


def lines(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Path], None]:
    return lambda root: edit_lines(root, "trials", change)


def hostile_name(lines: list[dict[str, Any]]) -> None:
    lines[0]["file"] = "searches/../trial-0000.json"


def pipe(root: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes on Windows")
    (root / "trials.jsonl.gz").unlink()
    os.mkfifo(root / "trials.jsonl.gz")


def endless_queries(root: Path) -> None:
    arrays = load_file(root / SCORES)
    for key in arrays:
        if key.endswith("queries_per_class"):
            arrays[key] = np.full_like(arrays[key], 2**60)
    (root / SCORES).write_bytes(save(arrays))
    fit_manifest(root, SCORES, save(arrays), len(arrays))


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut gzip": (cut("trials.jsonl.gz"), "is damaged"),
    "not gzip": (replace_with("trials.jsonl.gz", b"hello"), "is damaged"),
    "not lines": (replace_with("trials.jsonl.gz", gzip.compress(b"\x00\xff\n")), "line 1 is damaged"),
    "deep": (replace_with("trials.jsonl.gz", gzip.compress(b"[" * 200_000)), "line 1 is damaged"),
    "not a number": (
        replace_with("trials.jsonl.gz", gzip.compress(b'{"file": "x", "record": {"score": NaN}}\n')),
        "NaN is not a number",
    ),
    "other record": (lines(lambda found: found[0]["record"].update(number="one")), "does not fit"),
    "not a record": (lines(lambda found: found[0].update(record=[1])), "not a record of trials"),
    "hostile name": (lines(hostile_name), "not a record of trials"),
    "twice": (lines(lambda found: found.append(found[0])), "is there twice"),
    "fewer": (replace_with("trials.jsonl.gz", gzip.compress(b"")), "has 0 of 6 records"),
    "pipe": (pipe, "is missing"),
    "cut arrays": (cut(SCORES), "is damaged"),
    "endless queries": (endless_queries, "no valid number of queries per class"),
    "no manifest": (lambda root: (root / "archive.json").unlink(), "archive.json is missing"),
    "cut manifest": (cut("archive.json"), "archive.json is damaged"),
    "newer": (manifest(archive_version=2), "is of version 2 of the format"),
    "odd manifest": (manifest(files={"../x": {"records": 1, "sha256": ""}}), "does not fit this version"),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_one_clear_line(damage: str, own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, expected = DAMAGES[damage]
    change(own)
    assert run_app(["verify", str(own)]) in (1, 2)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert expected in line


def test_a_file_that_unpacks_to_too_much_is_refused(
    own: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (own / "specs.jsonl.gz").write_bytes(gzip.compress(b" " * 3_000_000))
    monkeypatch.setattr("levelfield.records._archive_files.MAX_BYTES", 2_000_000)
    assert run_app(["verify", str(own)]) in (1, 2)
    assert "more than 1 MB of content" in capsys.readouterr().err
    monkeypatch.undo()
    (own / "specs.jsonl.gz").write_bytes(gzip.compress(b" " * (9 << 20)))
    assert run_app(["verify", str(own)]) in (1, 2)
    assert "more than 8 MB of content" in capsys.readouterr().err
    (own / "specs.jsonl.gz").write_bytes(gzip.compress(b"[]," * 1_000_001))
    assert run_app(["verify", str(own)]) in (1, 2)
    assert "more lists than records have" in capsys.readouterr().err


def test_random_damage_never_ends_in_a_traceback(packed: Path, tmp_path: Path) -> None:
    names = ["archive.json", SCORES, *(file.name for file in packed.glob("*.jsonl.gz"))]
    draw = random.Random(0)
    for number in range(24):
        own = Path(shutil.copytree(packed, tmp_path / str(number)))
        file = own / draw.choice(names)
        data = bytearray(file.read_bytes())
        for _ in range(draw.choice((1, 5))):
            data[draw.randrange(len(data))] = draw.randrange(256)
        changed = bytes(data) != file.read_bytes()
        file.write_bytes(bytes(data))
        try:
            assert (
                verify(own) or not changed or file.suffix == ".gz"
            )  # a byte of a gzip header may not matter
        except LevelfieldError as error:
            assert "\n" not in str(error)


def test_a_name_in_the_ledger_leads_nowhere(own: Path, tmp_path: Path, _finished_tiny: Path) -> None:
    (tmp_path / "secret.json").write_text("not JSON")
    for root in (own, _finished_tiny):
        for name in ("../../secret.json", "/etc/passwd", "a/../../x.safetensors", "a/rerun-00.json"):
            assert Store(root).seal(name) is None


@pytest.mark.parametrize("name", ["", "trials", "runs//spec.json", "runs/a\\b/spec.json", "selections/.."])
def test_other_names_are_no_records(name: str) -> None:
    assert kind_of(name) is None
