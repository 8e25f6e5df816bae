"""Frauds that keep every record consistent with every other: the seals, and what must not be missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import levelfield as lf
from levelfield.compare import archive
from levelfield.errors import RunError
from levelfield.records import SEALED, RunFolder, Store
from levelfield.reports import verify_folder, write_report
from tampering import edit, ledger_lines, rerun_of


def shift_scores_and_queries(folder: Path, method: str, by: float) -> None:
    file = rerun_of(folder, method)
    arrays = load_file(file.with_suffix(".safetensors"))
    arrays["concatenated.map_at_r"] += np.float32(by)
    save_file(arrays, file.with_suffix(".safetensors"))

    def shifted(rerun: dict[str, Any]) -> None:
        rerun["concatenated"]["map_at_r"] = float(np.mean(arrays["concatenated.map_at_r"].astype(float)))

    edit(file, shifted)


def raise_scores_and_queries(folder: Path) -> None:
    shift_scores_and_queries(folder, "triplet", 0.1)


def lower_the_baseline(folder: Path) -> None:
    shift_scores_and_queries(folder, "untrained", -0.05)


def spread_the_classes_everywhere(folder: Path) -> None:
    """Every query a class of its own: intervals shrink, and all reruns agree."""
    for file in folder.glob("confirmations/*/rerun-*.safetensors"):
        arrays = load_file(file)
        arrays["classes"] = np.arange(len(arrays["classes"]))
        save_file(arrays, file)


def raise_the_folds(folder: Path) -> None:
    edit(rerun_of(folder, "triplet"), lambda rerun: rerun["folds"][0].update(map_at_r=0.9))


def call_a_trained_network_fixed(folder: Path) -> None:
    edit(rerun_of(folder, "triplet"), lambda rerun: rerun.update(best_epochs=[]))


def delete_a_bad_rerun(folder: Path) -> None:
    for suffix in (".json", ".safetensors"):
        rerun_of(folder, "triplet").with_suffix(suffix).unlink()


def delete_a_whole_confirmation(folder: Path) -> None:
    shutil.rmtree(rerun_of(folder, "triplet").parent)


def borrow_a_rerun_of_another_experiment(folder: Path) -> None:
    edit(rerun_of(folder, "triplet"), lambda rerun: rerun.update(runs=["0" * 16, "1" * 16]))


def change_index_and_revision(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    edit(folder / "experiment.json", change)
    experiment = json.loads((folder / "experiment.json").read_text())["experiment"]
    lines = (folder / "revisions.jsonl").read_text().splitlines()
    lines[-1] = json.dumps(json.loads(lines[-1]) | {"experiment": experiment})
    (folder / "revisions.jsonl").write_text("\n".join(lines) + "\n")


def drop_a_method(folder: Path) -> None:
    def dropped(index: dict[str, Any]) -> None:
        kept = [method for method in index["experiment"]["methods"] if method["name"] != "contrastive"]
        index["experiment"]["methods"] = kept
        del index["selections"]["contrastive"], index["searches"]["contrastive"]

    change_index_and_revision(folder, dropped)


def claim_another_trunk(folder: Path) -> None:
    change_index_and_revision(folder, lambda index: index["experiment"]["trunk"].update(name="resnet50"))


def delete_the_revisions(folder: Path) -> None:
    (folder / "revisions.jsonl").unlink()


def cut_the_ledger_and_call_it_old(folder: Path) -> None:
    (folder / "ledger.jsonl").write_text("\n".join(ledger_lines(folder)[:-1]) + "\n")
    (folder / "schema.json").write_text('{"schema_version": 1}')


def delete_the_length_of_the_ledger(folder: Path) -> None:
    (folder / "ledger.head.json").unlink()


@pytest.mark.parametrize(
    ("fraud", "finding"),
    [
        (raise_scores_and_queries, "rerun-00.json was changed after it was sealed"),
        (raise_scores_and_queries, "rerun-00.safetensors was changed after it was sealed"),
        (lower_the_baseline, "was changed after it was sealed"),
        (spread_the_classes_everywhere, "was changed after it was sealed"),
        (raise_the_folds, "was changed after it was sealed"),
        (call_a_trained_network_fixed, "was changed after it was sealed"),
        (delete_a_bad_rerun, "opened for rerun 1 of triplet, whose scores are not on record"),
        (delete_a_whole_confirmation, "opened for rerun 1, 2 of triplet, whose scores are not on record"),
        (borrow_a_rerun_of_another_experiment, "has scores of runs that are not on record"),
        (drop_a_method, "contrastive was scored on the test set and is left out"),
        (claim_another_trunk, "says trunk resnet50, but triplet was trained with conv4"),
        (delete_the_revisions, "revisions.jsonl is missing"),
        (cut_the_ledger_and_call_it_old, "it was cut"),
        (delete_the_length_of_the_ledger, "ledger.head.json is missing"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_consistent_fraud_is_found(folder: Path, fraud: Callable[[Path], None], finding: str) -> None:
    fraud(folder)
    write_report(folder)  # a cheat writes the tables again
    assert any(finding in line for line in verify_folder(folder)), verify_folder(folder)


def test_an_edited_table_for_latex_is_found(folder: Path) -> None:
    file = write_report(folder).with_name("results.tex")
    file.write_text(file.read_text().replace("triplet", "mine"))
    assert any("results.tex" in line for line in verify_folder(folder))


def test_running_again_does_not_seal_an_edited_score(values: dict[str, Any], folder: Path) -> None:
    raise_scores_and_queries(folder)
    more = values | {"confirm": {"reruns": 3, "gallery": 2}}  # the gallery writes into the same file
    lf.run(lf.Experiment.build(**more), folder)
    found = verify_folder(folder)
    assert {line.rpartition("/")[2] for line in found} == {
        "rerun-00.json was changed after it was sealed",
        "rerun-00.safetensors was changed after it was sealed",
    }


@pytest.mark.parametrize("lost", ["line", "head", "half of the head"])
def test_a_ledger_that_was_cut_is_not_added_to(lost: str, values: dict[str, Any], folder: Path) -> None:
    """Otherwise the head that is written with the next line would hide the cut."""
    if lost == "line":
        (folder / "ledger.jsonl").write_text("\n".join(ledger_lines(folder)[:-1]) + "\n")
    elif lost == "head":
        (folder / "ledger.head.json").unlink()
    else:
        (folder / "ledger.head.json").write_text('{"lines": ')
    before = ledger_lines(folder)
    with pytest.raises(RunError, match="restore it from a copy, or begin with a new --out folder"):
        lf.run(lf.Experiment.build(**values | {"confirm": {"reruns": 3}}), folder)
    assert ledger_lines(folder) == before


def test_a_kill_before_the_seal_is_made_good(values: dict[str, Any], folder: Path) -> None:
    store = Store(folder)
    *openings, last = store.ledger()
    assert last.event == SEALED
    store.ledger_file.unlink()
    store.ledger_head_file.unlink()
    for line in openings:
        store.append_ledger(line)
    lf.run(lf.Experiment.build(**values), folder)
    assert store.ledger()[-1].sealed == last.sealed
    assert verify_folder(folder) == []


def test_lines_without_seals_have_the_names_that_they_had(folder: Path) -> None:
    """Ledgers that are older than seals stay whole."""
    first = Store(folder).ledger()[0]
    assert "sealed" not in json.loads(ledger_lines(folder)[0])
    assert first.model_copy(update={"sealed": {"a": "b"}}).line_id != first.line_id


def test_a_rerun_whose_process_died_is_an_honest_failure(folder: Path, tmp_path: Path) -> None:
    file = rerun_of(folder, "triplet")
    run = RunFolder(folder / "runs" / json.loads(file.read_text())["runs"][0])
    reason = "its process died 3 times"
    edit(run.path / "result.json", lambda result: result.update(status="failed", reason=reason))
    file.write_text(json.dumps({"failed": reason}))
    file.with_suffix(".safetensors").unlink()
    archive(folder, tmp_path / "archive")
    for root in (folder, tmp_path / "archive"):
        assert not any("said to have failed" in line for line in verify_folder(root))
