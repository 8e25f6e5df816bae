"""Records survive what disks and kills do to them, and old ones can still be read."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
import levelfield.protocol
from levelfield.compare import collect
from levelfield.errors import RunError
from levelfield.files import append_line
from levelfield.records import IDENTITY, EpochLine, LedgerLine, RunFolder, Store, scope_table

REPOSITORY = Path(__file__).parents[2]
SOURCE = Path(lf.__file__).parent
OLD = Path(__file__).parent / "version-1"  # CUB, 14 methods, as schema 1 kept them
LINE = LedgerLine(time="t", host="h", commit=None, method="triplet", selection="s", event="opened")


@pytest.mark.parametrize("file", ["revisions.jsonl", "ledger.jsonl"])
def test_half_a_line_does_not_brick_the_folder(file: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    """A full disk leaves half a line; the experiment goes on, and the line after it is whole."""
    tiny["methods"] = ["triplet"]
    root = lf.run(lf.Experiment.build(**tiny), tmp_path / "out")
    with (root / file).open("a") as torn:
        torn.write('{"time": "2026-')
    tiny["search"]["trials"] = 3
    tiny["seed"] = 5
    lf.run(lf.Experiment.build(**tiny), root)
    store = Store(root)
    assert len(store.revisions()) == 2
    assert [line.method for line in store.ledger()] == ["untrained", "triplet", "all"] * 2


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
    """What is left of the temporary file does not make the folder somebody else's."""
    (tmp_path / ".lock").touch()
    (tmp_path / ".schema.json.123-456.tmp").write_text('{"schema_')
    with Store(tmp_path).open():
        pass
    assert Store(tmp_path).schema_version() == 2
    assert not list(tmp_path.glob(".schema*"))


def test_what_killed_writers_left_is_gone_at_the_end(tmp_path: Path) -> None:
    """A temporary file of a killed driver or worker is no record, and does not stay for ever."""
    places = [".", "searches/s", "selections", "confirmations", "confirmations/c"]
    store = Store(tmp_path)
    with store.open():
        for place in places:
            (tmp_path / place).mkdir(exist_ok=True, parents=True)
            (tmp_path / place / ".record.json.1-2.tmp").touch()
        for run, ended in (("a", True), ("b", False)):
            (tmp_path / "runs" / run).mkdir(parents=True)
            (tmp_path / "runs" / run / "state.pt").touch()
            if ended:  # and the process was killed before it could delete the state
                (tmp_path / "runs" / run / "result.json").touch()
    assert not list(tmp_path.rglob("*.tmp"))
    assert [file.parent.name for file in tmp_path.rglob("state.pt")] == ["b"]


def test_epochs_of_both_versions_are_read(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    append_line(tmp_path / "epochs.jsonl", {"epoch": 0, "loss": None, "map_at_r": 0.25})
    folder.append_log(EpochLine(epoch=2, loss=0.5, scores={"map_at_r": 0.5}))
    assert [line.scores["map_at_r"] for line in folder.log()] == [0.25, 0.5]


def test_records_of_version_1_are_read(tmp_path: Path) -> None:
    """The folder that the first version wrote: every number of its own results table, from its records."""
    comparison = collect(OLD)
    assert len(comparison.trained) == 14 and comparison.baseline == "pretrained"
    network = Store(OLD).selection(Store(OLD).index().selections["pretrained"][0]).network
    assert network is not None and network.data.split.options == {"folds": 4, "test_fraction": 0.5}
    shutil.copytree(OLD, tmp_path / "old")
    command = [sys.executable, "-m", "levelfield", "report", str(tmp_path / "old")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "56.61 ± 1.31" in done.stdout, "multi_similarity_miner, concatenated P@1"


def test_an_experiment_does_not_go_on_in_a_folder_of_version_1(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "old")
    store = Store(tmp_path / "old")
    with (
        pytest.raises(RunError, match=r"schema 1, this is schema 2; choose a new --out.*still reads"),
        store.open(),
    ):
        pass


def test_a_plan_for_a_folder_of_version_1_says_so_too(tiny: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "old")
    with pytest.raises(RunError, match="schema 1, this is schema 2"):
        lf.protocol.plan(lf.Experiment.build(**tiny), tmp_path / "old")


def test_a_folder_of_a_later_version_says_so(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "new")
    (tmp_path / "new" / "schema.json").write_text(json.dumps({"schema_version": 3}))
    with pytest.raises(RunError, match="written by schema 3, and this version reads 1 and 2"):
        collect(tmp_path / "new")


def test_reading_records_does_not_import_torch() -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom levelfield.records import Store\n"
        f"store = Store(Path({str(OLD)!r}))\nindex = store.index()\nstore.ledger(), store.revisions()\n"
        "for found in index.searches.values(): store.trials(found[0])\n"
        "for method in index.selections: store.reruns(index.selection_ids(method)[0], 3)\n"
        "print(sorted({'torch', 'optuna', 'scipy', 'timm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


READERS = {"read_json", "read_lines"}


def test_nobody_else_reads_the_files_of_records() -> None:
    """Outside ``records`` a record has fields, not keys: only files that are no records are read as JSON."""
    users = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            called = isinstance(node, ast.Attribute) and node.attr in READERS
            imported = isinstance(node, ast.ImportFrom) and READERS & {alias.name for alias in node.names}
            if called or imported:
                users.add(file.relative_to(SOURCE).parts[0])
    # of stores, features, model folders and indexes; what trackers noted as sent
    manifests = {"data", "models", "embedders", "index", "track"}
    assert users <= {"records", "files.py"} | manifests


def test_the_table_of_identity_is_in_the_docs() -> None:
    text = (REPOSITORY / "docs" / "protocol.md").read_text()
    for setting, names, why in scope_table():
        assert f"| {setting} | {names} | {why} |" in text
    assert any(not row.is_identity for row in IDENTITY)
