"""Run the notebooks and keep their outputs: ``python tools/docs/notebooks.py``."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"


def run(file: Path) -> nbformat.NotebookNode:
    """The notebook with fresh outputs; a cell that fails raises.

    What differs from run to run (times, messages on stderr) is left out, so that a new run changes few lines.
    """
    book = nbformat.read(file, as_version=4)
    NotebookClient(
        book, timeout=1800, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    for cell in book.cells:
        cell.get("metadata", {}).pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                output.get("data", {}).pop("text/html", None)  # the plain table says the same, and is smaller
    book.metadata.pop("widgets", None)
    book.metadata["language_info"] = {"name": "python"}
    return book


def main() -> None:
    """Run all, or those that are named."""
    for file in [Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(run(file), file)
        print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
