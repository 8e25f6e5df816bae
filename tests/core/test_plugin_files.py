"""The digest of a plug-in covers its helper modules and declared data files, also on other machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from levelfield.core.errors import UsageError
from levelfield.core.registry import load_plugin_file
from levelfield.core.sources import file_digest, read_plugin_files
from levelfield.engine._remote_task import _write_plugin


@pytest.fixture(autouse=True)
def restored_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the helper modules of each test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("helper_of_"):
            del sys.modules[name]


def test_the_copy_on_another_machine_has_the_digest_of_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Import as Ray does, whose processes have the driver's working directory first in their path."""
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    here = tmp_path / "project"
    here.mkdir()
    (here / "plug.py").write_text("import helper_of_ray\n\nVALUE = helper_of_ray.VALUE\n")
    (here / "helper_of_ray.py").write_text("VALUE = 1\n")
    digest = file_digest(here / "plug.py")
    sys.path.insert(0, str(here))
    copy = _write_plugin(digest, "plug.py", read_plugin_files(here / "plug.py"))
    assert load_plugin_file(copy) == digest
    assert Path(str(sys.modules["helper_of_ray"].__file__)).parent == copy.parent


@pytest.mark.parametrize(
    "statement",
    [
        'import importlib\nimportlib.import_module("helper_of_call")',
        'from importlib import import_module\nimport_module(name="helper_of_call")',
        '__import__("helper_of_call")',
    ],
)
def test_a_helper_that_is_imported_by_a_call_is_noticed(statement: str, tmp_path: Path) -> None:
    plugin, helper = tmp_path / "plug.py", tmp_path / "helper_of_call.py"
    plugin.write_text(statement + "\n")
    helper.write_text("VALUE = 1\n")
    before = load_plugin_file(plugin)
    assert before == file_digest(plugin) and "helper_of_call.py" in read_plugin_files(plugin)
    helper.write_text("VALUE = 2\n")
    assert file_digest(plugin) != before


def test_declared_data_files_are_part_of_the_digest_and_are_sent(tmp_path: Path) -> None:
    plugin, table = tmp_path / "plug.py", tmp_path / "tables" / "weights.csv"
    table.parent.mkdir()
    table.write_text("1,2\n")
    plugin.write_text('LEVELFIELD_FILES = ["tables/weights.csv"]\n')
    before = load_plugin_file(plugin)
    assert before == file_digest(plugin)
    assert read_plugin_files(plugin)["tables/weights.csv"] == b"1,2\n"
    table.write_text("1,3\n")
    assert file_digest(plugin) != before


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('["missing.csv"]', "missing.csv does not exist; the plug-in .* declares it in LEVELFIELD_FILES"),
        ('["../table.csv"]', "name files in the plug-in's directory only"),
        ('["/etc/hostname"]', "name files in the plug-in's directory only"),
        ("sorted([])", "must be a plain list of file names"),
        ("[1]", "must be a plain list of file names"),
    ],
)
def test_a_wrong_declaration_is_one_clear_line(value: str, message: str, tmp_path: Path) -> None:
    plugin = tmp_path / "plug.py"
    plugin.write_text(f"LEVELFIELD_FILES = {value}\n")
    with pytest.raises(UsageError, match=message):
        load_plugin_file(plugin)
