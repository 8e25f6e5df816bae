"""The notebooks run from top to bottom, and what is kept of their outputs is small."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[1]
BOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("book", BOOKS, ids=lambda file: file.stem)
def test_the_notebook_runs(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVELFIELD_NOTEBOOK_SMALL", "1")
    spec = importlib.util.spec_from_file_location("notebook_runner", ROOT / "tools" / "docs" / "notebooks.py")
    assert spec is not None and spec.loader is not None
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    done = runner.run(book)
    assert any(cell.get("outputs") for cell in done.cells)


@pytest.mark.parametrize("book", BOOKS, ids=lambda file: file.stem)
def test_what_is_kept_is_small_and_names_no_machine(book: Path) -> None:
    assert book.stat().st_size < 200_000
    text = book.read_text(encoding="utf-8")
    assert "Traceback" not in text
    for private in ("/home/", "/root/", "/work/", str(ROOT)):
        assert private not in text


def test_there_are_three() -> None:
    assert [book.stem for book in BOOKS] == ["first-comparison", "look-at-mistakes", "own-loss"]
