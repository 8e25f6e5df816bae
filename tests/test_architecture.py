"""The layout is the architecture: imports go only up the list of rooms, and few places hold few powers."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import levelfield

SOURCE = Path(levelfield.__file__).parent
ROOMS = [
    "errors",
    "files",
    "processes",
    "hubs",
    "space",
    "seeds",
    "sources",
    "options",
    "registry",
    "config",
    "records",
    "data",
    "models",
    "geometry",
    "batches",
    "miners",
    "losses",
    "methods",
    "metrics",
    "train",
    "engine",
    "stats",
    "rerank",
    "embedders",
    "index",
    "published",
    "compare",
    "frames",
    "protocol",
    "reports",
    "web",
    "track",
    "studies",
    "app",
    "doctor",
    "starter",
    "cli",
    "testing",
]
FILES = sorted(SOURCE.rglob("*.py"))


def room_of(file: Path) -> str:
    first = file.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imports(file: Path) -> Iterator[str]:
    """The modules that ``file`` imports, also inside functions, but not for type checkers only."""
    for node in ast.walk(_without_type_checking(ast.parse(file.read_text()))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "levelfield":
                yield from (f"levelfield.{alias.name}" for alias in node.names)
            else:
                yield node.module


def _without_type_checking(tree: ast.Module) -> ast.Module:
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    return tree


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_go_only_up(file: Path) -> None:
    room = room_of(file)
    if room in ("__init__", "__main__"):
        return
    assert room in ROOMS, f"{room} is no room of the architecture"
    for module in imports(file):
        parts = module.split(".")
        if parts[0] == "levelfield" and len(parts) > 1 and parts[1] in ROOMS:
            assert ROOMS.index(parts[1]) <= ROOMS.index(room), f"{file} imports {module} from below"


def imported_names(file: Path) -> Iterator[str]:
    """Every module, or name of a module, that ``file`` imports from this package, by its full path."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_private_means_private(file: Path) -> None:
    """A room exports what it shares; nobody imports another room's ``_module``."""
    for name in imported_names(file):
        package, *parts = name.split(".")
        if package == "levelfield" and parts and parts[0] != room_of(file):
            assert not any(part.startswith("_") for part in parts[1:]), f"{file} imports {name}"


@pytest.mark.parametrize(("package", "room"), [("optuna", "protocol"), ("ray", "engine"), ("typer", "cli")])
def test_only_one_room_imports(package: str, room: str) -> None:
    users = {room_of(file) for file in FILES for module in imports(file) if module.split(".")[0] == package}
    assert users <= {room}


FULL_DATASETS = ("open_dataset", "split_dataset", "development_view")


def test_only_the_guard_and_the_development_view_load_datasets() -> None:
    """Nothing between the data room and the command line reaches a full dataset but these two."""
    callers = set()
    for file in FILES:
        if room_of(file) in ("data", "cli", "testing"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("data.load", "lf.data.load"):
                callers.add(str(file.relative_to(SOURCE)))
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in FULL_DATASETS:
                callers.add(str(file.relative_to(SOURCE)))
    assert callers == {"protocol/guard.py"}


def test_help_imports_nothing_heavy() -> None:
    """``levelfield --help`` and ``import levelfield`` answer at once because they load no heavy package."""
    code = (
        "import sys, levelfield, levelfield.cli._app\n"
        "heavy = {'torch', 'optuna', 'numpy', 'pydantic', 'matplotlib', 'plotly', 'timm', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
