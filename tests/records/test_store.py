"""Records survive full disks and killed processes; directories of other schemas are refused."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
import levelfield.protocol
from levelfield.analysis import read_comparison
from levelfield.core.errors import RunError
from levelfield.core.files import append_line
from levelfield.records import IDENTITY_RULES, LedgerLine, Store, identity_table

REPOSITORY = Path(__file__).parents[2]
SOURCE = Path(lf.__file__).parent
ARCHIVE = REPOSITORY / "results" / "cub200-frozen"
LINE = LedgerLine(time="t", host="h", commit=None, method="triplet", selection="s", event="opened")


@pytest.mark.slow
@pytest.mark.parametrize("file", ["revisions.jsonl", "ledger.jsonl"])
def test_half_a_line_does_not_break_the_directory(file: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    """A full disk leaves half a line; the experiment continues, and the next line is complete."""
    tiny["methods"] = ["triplet"]
    root = lf.run(lf.Experiment.build(**tiny), tmp_path / "out").path
    with (root / file).open("a") as torn:
        torn.write('{"time": "2026-')
    tiny["search"]["trials"] = 3
    tiny["seed"] = 5
    lf.run(lf.Experiment.build(**tiny), root)
    store = Store(root)
    assert len(store.revisions()) == 2
    assert [line.method for line in store.ledger()] == ["all", "untrained", "triplet", "all"] * 2


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append_ledger(LINE)
    with store.ledger_file.open("a") as file:
        file.write("{]\n")
    with pytest.raises(RunError, match=r"ledger\.jsonl, line 2 is damaged"):
        store.ledger()


def test_a_line_of_another_version_is_named(tmp_path: Path) -> None:
    append_line(tmp_path / "ledger.jsonl", {"time": "t", "unknown": 1})
    with pytest.raises(RunError, match=r"ledger\.jsonl does not fit this version \(host: Field required\)"):
        Store(tmp_path).ledger()


def test_a_kill_while_the_schema_is_first_written(tmp_path: Path) -> None:
    """A leftover temporary file does not count as a file of another program."""
    (tmp_path / ".lock").touch()
    (tmp_path / ".schema.json.123-456.tmp").write_text('{"schema_')
    with Store(tmp_path).open():
        pass
    assert Store(tmp_path).schema_version() == 2
    assert not list(tmp_path.glob(".schema*"))


def test_leftovers_of_killed_processes_are_deleted_at_the_end(tmp_path: Path) -> None:
    """Temporary files of a killed driver or worker are deleted, and states of finished runs."""
    places = [".", "searches/s", "selections", "confirmations", "confirmations/c"]
    store = Store(tmp_path)
    with store.open():
        for place in places:
            (tmp_path / place).mkdir(exist_ok=True, parents=True)
            (tmp_path / place / ".record.json.1-2.tmp").touch()
        for run, ended in (("a", True), ("b", False)):
            (tmp_path / "runs" / run).mkdir(parents=True)
            (tmp_path / "runs" / run / "state.pt").touch()
            if ended:  # the process was killed before it could delete the state
                (tmp_path / "runs" / run / "result.json").touch()
    assert not list(tmp_path.rglob("*.tmp"))
    assert [file.parent.name for file in tmp_path.rglob("state.pt")] == ["b"]


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (1, r"by a development version before 0\.1 \(schema 1, this is schema 2\); run the experiment again"),
        (3, "written by schema 3, this is schema 2; read it with the version that wrote it"),
    ],
)
def test_a_directory_of_another_schema_is_refused(
    version: int, message: str, tiny: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "schema.json").write_text(json.dumps({"schema_version": version}))
    (tmp_path / "experiment.json").write_text("{}")
    with pytest.raises(RunError, match=message), Store(tmp_path).open():
        pass
    with pytest.raises(RunError, match=message):
        lf.protocol.plan(lf.Experiment.build(**tiny), tmp_path)
    with pytest.raises(RunError, match=message):
        read_comparison(tmp_path)


def test_reading_records_does_not_import_torch() -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom levelfield.records import Store\n"
        f"store = Store(Path({str(ARCHIVE)!r}))\nrecord = store.experiment_record()\n"
        "store.ledger(), store.revisions()\n"
        "for found in record.searches.values(): store.trials(found[0])\n"
        "for method in record.selections: store.reruns(record.selection_ids(method)[0], 3)\n"
        "print(sorted({'torch', 'optuna', 'scipy', 'timm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


READERS = {"read_json", "read_lines"}


@pytest.mark.slow
def test_only_the_records_package_reads_the_files_of_records() -> None:
    """Other packages use the fields of records; they read as JSON only files that are not records."""
    users = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            called = isinstance(node, ast.Attribute) and node.attr in READERS
            imported = isinstance(node, ast.ImportFrom) and READERS & {alias.name for alias in node.names}
            if called or imported:
                users.add(file.relative_to(SOURCE).parts[0])
    # manifests of stores, features, model directories, indexes and trackers; the cached rate of false alarms
    manifests = {"data", "models", "retrieval", "track", "reports"}
    assert users <= {"records", "core"} | manifests


def test_the_table_of_identity_is_in_the_docs() -> None:
    text = (REPOSITORY / "docs" / "protocol.md").read_text()
    for setting, names, why in identity_table():
        assert f"| {setting} | {names} | {why} |" in text
    assert any(not row.is_identity for row in IDENTITY_RULES)
