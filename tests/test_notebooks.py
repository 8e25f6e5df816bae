"""The notebooks run from top to bottom, and their stored outputs are small."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers.warm import run_warm

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[1]
BOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


IN_A_KERNEL = "first-comparison"  # the others run as scripts: a kernel of their own proves nothing more
SMALLER = 'dataset={"name": "glyphs", "samples_per_class": 6}, trunk={"width": 4}'


@pytest.mark.slow
def test_a_notebook_runs_in_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.docs import notebooks  # needs the packages above

    monkeypatch.setenv("LEVELFIELD_NOTEBOOK_SMALL", "1")
    done = notebooks.run(ROOT / "notebooks" / f"{IN_A_KERNEL}.ipynb")
    assert any(cell.get("outputs") for cell in done.cells)


@pytest.mark.slow
@pytest.mark.parametrize("name", [book.stem for book in BOOKS if book.stem != IN_A_KERNEL])
def test_the_cells_of_a_notebook_run(name: str, tmp_path: Path) -> None:
    book = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    cells = [cell.source for cell in book.cells if cell.cell_type == "code"]
    assert not any(line.startswith(("%", "!")) for cell in cells for line in cell.splitlines())
    source = "\n".join(cells)
    assert source.count('preset="demo",') == 1
    source = source.replace('preset="demo",', f'preset="demo", {SMALLER},')
    environment = os.environ | {"LEVELFIELD_NOTEBOOK_SMALL": "1", "MPLBACKEND": "agg"}
    done = run_warm(["-c", source], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("book", BOOKS, ids=lambda file: file.stem)
def test_what_is_kept_is_small_and_names_no_machine(book: Path) -> None:
    assert book.stat().st_size < 200_000
    text = book.read_text(encoding="utf-8")
    assert "Traceback" not in text
    for private in ("/home/", "/root/", "/work/", str(ROOT)):
        assert private not in text


def test_there_are_three() -> None:
    assert [book.stem for book in BOOKS] == ["first-comparison", "look-at-mistakes", "own-loss"]
