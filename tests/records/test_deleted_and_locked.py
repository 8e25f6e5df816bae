"""A directory that is deleted, locked or read-only while it is in use gives one clear line."""

from __future__ import annotations

import errno
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.core import files
from levelfield.core.errors import RunError
from levelfield.protocol import ProgressEvent, ProgressState, guard
from levelfield.records import LedgerLine, Revision, Search, Selection, Store


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0])
@pytest.mark.parametrize("moment", ["started", "finished", "trial", "selected", "opened"])
def test_a_directory_that_is_deleted_under_a_run_is_not_created_again(
    moment: str, workers: int, tiny: dict[str, Any], tmp_path: Path
) -> None:
    root = tmp_path / "out"
    tiny |= {"methods": ["triplet"], "engine": {"workers": workers}}

    class Deletes:
        def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
            if event.kind == moment:
                shutil.rmtree(root, ignore_errors=True)

    with pytest.raises(RunError) as caught:
        lf.run(tiny, root, progress=Deletes())
    assert "\n" not in str(caught.value)
    assert not root.exists() or not any(root.iterdir())
    lf.run(tiny, root)  # nothing is in the way


@pytest.mark.slow
def test_verify_says_that_a_run_is_still_writing(finished_tiny: Callable[..., Path]) -> None:
    root = finished_tiny()
    assert lf.verify(root) == []
    with (
        Store(root).open(),
        pytest.raises(RunError, match=r"another levelfield command is still writing to .*; verify it when"),
    ):
        lf.verify(root)
    assert lf.verify(root) == []


def test_temporary_files_of_killed_trackers_are_deleted(finished_tiny: Callable[..., Path]) -> None:
    root = finished_tiny()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, used = (
        root / "tracking" / "mlflow" / f".told.jsonl.{pid}-1.tmp" for pid in (gone.pid, os.getppid())
    )
    left.parent.mkdir(parents=True)
    left.touch()
    used.touch()
    with Store(root).open():
        pass
    assert not left.exists() and used.exists()


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Return a function that makes a directory read-only, also for the administrator."""

    def protect(directory: Path) -> None:
        def refuse(path: Any) -> None:
            if isinstance(path, str | Path) and Path(path).is_relative_to(directory):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

        real_open, real_os_open, real_mkdir = io.open, os.open, os.mkdir

        def new_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if set(mode) & set("wax+"):
                refuse(file)
            return real_open(file, mode, *arguments, **options)

        def new_os_open(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                refuse(path)
            return real_os_open(path, flags, *arguments, **options)

        def new_mkdir(path: Any, *arguments: Any, **options: Any) -> None:
            if not Path(path).exists():
                refuse(path)
            real_mkdir(path, *arguments, **options)

        monkeypatch.setattr(io, "open", new_open)
        monkeypatch.setattr(os, "open", new_os_open)
        monkeypatch.setattr(os, "mkdir", new_mkdir)

    return protect


@pytest.mark.slow
@pytest.mark.parametrize("has_lock_file", [True, False])
def test_a_warm_cache_may_be_read_only(
    has_lock_file: bool,
    tiny: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read_only: Callable[[Path], None],
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("LEVELFIELD_CACHE", str(cache))
    monkeypatch.setattr("levelfield.train._setup._features", {})
    tiny |= {"methods": [{"name": "triplet", "set": {"margin": 0.2}}], "search": {"trials": 1}}
    tiny["trunk"] |= {"mode": "frozen"}
    lf.run(tiny, tmp_path / "first")
    locks = list(cache.glob("features/*/.lock"))
    assert locks
    if not has_lock_file:
        for file in locks:
            file.unlink()
    monkeypatch.setattr("levelfield.train._setup._features", {})
    read_only(cache)
    lf.run(tiny, tmp_path / "second")


def test_a_cold_cache_that_is_read_only_has_another_remedy_than_room(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    read_only(tmp_path)
    with pytest.raises(RunError, match="Read-only file system; make it writable, or choose another --out,"):
        files.write_text(tmp_path / "new" / "file", "text")
    with (
        pytest.raises(RunError, match="Read-only file system; make it writable"),
        files.lock(tmp_path / "a" / "b"),
    ):
        pass


@pytest.mark.parametrize("clock", ["right", "set back"])
def test_the_ledgers_chain_decides_what_came_first(
    clock: str, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that was added after a look is called so, even if the clock says that it came before."""
    store = Store(tmp_path)
    times = {
        "right": ("2026-01-01", "2026-01-02", "2026-01-03"),
        "set back": ("2026-01-01", "2026-01-02", "2025-01-01"),
    }
    first, looked, added = times[clock]
    experiment = lf.Experiment.build(**tiny)
    more = experiment.model_copy(update={"search": experiment.search.model_copy(update={"repeats": 2})})
    store.append_revision(Revision(time=first, experiment=experiment))
    line = LedgerLine(time=looked, host="h", commit=None, method="triplet", selection="s", event="opened")
    store.append_ledger(line)
    store.append_revision(Revision(time=added, experiment=more))
    selection = Selection.model_construct(method="triplet", search="x")
    monkeypatch.setattr(store, "search", lambda _: Search.model_construct(repeat=1))  # type: ignore[call-arg]  # the one field that is read
    assert guard._is_added_search(store, selection)
