"""Run the notebooks and store their outputs: ``python -m tools.docs.notebooks``."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

DIRECTORY = Path(__file__).parents[2] / "notebooks"


def run(file: Path) -> nbformat.NotebookNode:
    """Run a notebook and return it with fresh outputs; raise if a cell fails.

    Outputs that differ from run to run (times, messages on stderr) are removed, so that diffs stay small.
    """
    book: nbformat.NotebookNode = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]  # no types
    NotebookClient(
        book, timeout=1800, kernel_name="python3", resources={"metadata": {"path": str(DIRECTORY)}}
    ).execute()
    for cell in book.cells:
        cell.get("metadata", {}).pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                output.get("data", {}).pop(
                    "text/html", None
                )  # the plain table has the same content and is smaller
    book.metadata.pop("widgets", None)
    book.metadata["language_info"] = {"name": "python"}
    return book


def main() -> None:
    """Run all notebooks, or those named on the command line."""
    for file in [Path(name) for name in sys.argv[1:]] or sorted(DIRECTORY.glob("*.ipynb")):
        nbformat.write(run(file), file)  # type: ignore[no-untyped-call]  # no types
        print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
