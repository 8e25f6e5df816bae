"""Files are written atomically, torn lines do not damage others, and locks exclude other processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from levelfield.core import files
from levelfield.core.errors import RunError


def test_a_file_is_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "new" / "directory" / "x.json"
    files.write_json(target, {"b": 1, "a": [2]})
    assert files.read_json(target) == {"a": [2], "b": 1}
    assert [file.name for file in target.parent.iterdir()] == ["x.json"]


def test_a_write_that_fails_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.txt"
    files.write_text(target, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"cannot write .*x\.txt: No space left on device; make room"):
        files.write_text(target, "new")
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["x.txt"]


def test_file_and_directory_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced before the rename, the directory after it."""
    real, synced = os.fsync, []

    def fsync(descriptor: int) -> None:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append(("directory" if is_directory else "file", (tmp_path / "x").exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    files.write_bytes(tmp_path / "x", b"1")
    assert synced == [("file", False), ("directory", True)]


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1', b"\xff\xfe", b"[1, 2"])
def test_a_damaged_json_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(RunError, match=r"x\.json is damaged .*; delete that file"):
        files.read_json(tmp_path / "x.json")


def test_a_missing_json_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot read .*x\.json: No such file"):
        files.read_json(tmp_path / "x.json")


def test_a_line_torn_at_any_byte_is_skipped_and_damages_no_other(tmp_path: Path) -> None:
    """Without the mark, a torn line would become part of the next one."""
    file = tmp_path / "ledger.jsonl"
    whole = (json.dumps({"text": "a {b} ümlaut", "number": 1.5}) + "\n").encode()
    for cut in range(1, len(whole)):
        file.unlink(missing_ok=True)
        files.append_line(file, {"line": 1})
        with file.open("ab") as stream:
            stream.write(whole[:cut])
        assert files.read_lines(file) == [{"line": 1}]
        files.append_line(file, {"line": 2})
        assert files.read_lines(file) == [{"line": 1}, {"line": 2}]


def test_an_append_torn_while_it_repairs_is_repaired_too(tmp_path: Path) -> None:
    file = tmp_path / "ledger.jsonl"
    repair = f"{files.TORN_MARK}\n{json.dumps({'line': 2})}\n".encode()
    for cut in range(1, len(repair)):
        file.write_bytes(b'{"line": 1}\n{"to' + repair[:cut])
        files.append_line(file, {"line": 3})
        assert files.read_lines(file) == [{"line": 1}, {"line": 3}]


def test_a_damaged_line_is_named_with_its_number(tmp_path: Path) -> None:
    file = tmp_path / "ledger.jsonl"
    for damage in ("{]", "3", "\0\0\0"):
        file.write_text(f'{{"line": 1}}\n{damage}\n{{"line": 3}}\n')
        with pytest.raises(RunError, match=r"ledger\.jsonl, line 2 is damaged .*; remove that line"):
            files.read_lines(file)


def test_no_file_has_no_lines(tmp_path: Path) -> None:
    assert files.read_lines(tmp_path / "none.jsonl") == []


def append_many(file: Path, name: str) -> None:
    for number in range(50):
        files.append_line(file, {"name": name, "number": number})


def test_two_processes_append_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=append_many, args=(file, name)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    lines = files.read_lines(file)
    for name in "ab":
        assert [line["number"] for line in lines if line["name"] == name] == list(range(50))


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_lock_keeps_another_process_out(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "lock" if kind == "file" else tmp_path
    code = (
        "import sys; from pathlib import Path; from levelfield.core import files\n"
        "with files.lock(Path(sys.argv[1]), busy='the lock is taken'): print('in')"
    )

    def other() -> subprocess.CompletedProcess[str]:
        command: list[Any] = [sys.executable, "-c", code, path]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    with files.lock(path):
        assert "the lock is taken" in other().stderr
    assert other().stdout == "in\n"


@pytest.mark.parametrize("text", ["[NaN]", "[Infinity]", "[1e999]", "9" * 200, "9" * 10_000, "[" * 100_000])
def test_numbers_and_nesting_that_are_never_written_are_damage(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(RunError, match="is damaged"):
        files.read_json(tmp_path / "a.json")
    (tmp_path / "a.jsonl").write_text(f'{{"a": {text}}}\n')
    with pytest.raises(RunError, match="line 1 is damaged"):
        files.read_lines(tmp_path / "a.jsonl")


def test_names_that_are_not_unicode_are_written_escaped(tmp_path: Path) -> None:
    files.write_text(tmp_path / "a.txt", "caf\udce9 \ud800")
    assert (tmp_path / "a.txt").read_text() == "caf\\udce9 \\ud800"
