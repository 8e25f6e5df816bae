"""The layout is the architecture: docs/architecture.md lists the imports of each package."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import levelfield

SOURCE = Path(levelfield.__file__).parent
DOCUMENT = Path(__file__).parents[1] / "docs" / "architecture.md"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_PACKAGES = 22


def package_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def documented() -> dict[str, set[str]]:
    """The packages of docs/architecture.md, each with those that it may import."""
    text = DOCUMENT.read_text(encoding="utf-8").partition("## Packages")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", text, re.MULTILINE)
    return {package: set(re.findall(r"`(\w+)`", imports)) for package, imports in rows}


def imported_modules(file: Path) -> Iterator[str]:
    """The modules that a file imports, also inside functions, but not for type checkers only."""
    tree = ast.parse(file.read_text())
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "levelfield":
                yield from (f"levelfield.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_packages_import_what_the_architecture_says() -> None:
    allowed = documented()
    found: dict[str, set[str]] = {package: set() for package in allowed}
    for file in FILES:
        package = package_of(file)
        if package in ("__init__", "__main__"):
            continue
        assert package in allowed, f"{package} is not in the table of docs/architecture.md"
        for module in imported_modules(file):
            parts = module.split(".")
            if parts[0] == "levelfield" and len(parts) > 1 and parts[1] in allowed and parts[1] != package:
                found[package].add(parts[1])
                assert parts[1] in allowed[package], f"{file} imports {module}: not in docs/architecture.md"
    assert found == allowed, "docs/architecture.md lists imports that no file uses"
    tuple(TopologicalSorter(allowed).static_order())  # raises on a cycle


def test_few_names_stand_at_the_top() -> None:
    packages = {package_of(file) for file in FILES} - {"__init__", "__main__"}
    assert packages == set(documented()) and len(packages) <= MOST_PACKAGES


def test_private_modules_are_imported_by_their_own_package_only() -> None:
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                package, *parts = name.split(".")
                if package == "levelfield" and parts and parts[0] != package_of(file):
                    assert not any(part.startswith("_") for part in parts[1:]), f"{file} imports {name}"


@pytest.mark.parametrize(
    ("package", "rooms"),
    [("optuna", {"core", "protocol", "analysis"}), ("ray", {"engine"}), ("typer", {"cli"})],
)
def test_few_packages_import_a_library(package: str, rooms: set[str]) -> None:
    users = {
        package_of(file)
        for file in FILES
        for module in imported_modules(file)
        if module.split(".")[0] == package
    }
    assert users <= rooms


FULL_DATASETS = ("open_dataset", "split_dataset", "development_view")


def test_only_the_guard_and_the_development_view_load_datasets() -> None:
    """Nothing between the data package and the command line reaches a full dataset but these two."""
    callers = set()
    for file in FILES:
        if package_of(file) in ("data", "cli", "testing"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("data.load", "lf.data.load"):
                callers.add(str(file.relative_to(SOURCE)))
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in FULL_DATASETS:
                callers.add(str(file.relative_to(SOURCE)))
    # `levelfield models` scores test classes without training; its guide says what that means
    assert callers == {"protocol/guard.py", "api/choice/_images.py"}


def test_help_imports_nothing_heavy() -> None:
    """``levelfield --help`` and ``import levelfield`` answer at once because they load no heavy package."""
    code = (
        "import sys, levelfield, levelfield.cli._app\n"
        "heavy = {'torch', 'optuna', 'numpy', 'pydantic', 'matplotlib', 'plotly', 'timm', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
