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
from tests.helpers.tampering import edit, ledger_lines, rerun_of

import levelfield as lf
from levelfield.api import archive
from levelfield.core.errors import RunError
from levelfield.records import EVENT_SEALED, RunDirectory, Store
from levelfield.reports import verify_experiment, write_report

pytestmark = pytest.mark.slow  # experiments, end to end


def shift_scores_and_queries(directory: Path, method: str, by: float) -> None:
    file = rerun_of(directory, method)
    arrays = load_file(file.with_suffix(".safetensors"))
    arrays["concatenated.map_at_r"] += np.float32(by)
    save_file(arrays, file.with_suffix(".safetensors"))

    def shifted(rerun: dict[str, Any]) -> None:
        rerun["concatenated"]["map_at_r"] = float(np.mean(arrays["concatenated.map_at_r"].astype(float)))

    edit(file, shifted)


def raise_scores_and_queries(directory: Path) -> None:
    shift_scores_and_queries(directory, "triplet", 0.1)


def lower_the_baseline(directory: Path) -> None:
    shift_scores_and_queries(directory, "untrained", -0.05)


def spread_the_classes_everywhere(directory: Path) -> None:
    """Every query a class of its own: intervals shrink, and all reruns agree."""
    for file in directory.glob("confirmations/*/rerun-*.safetensors"):
        arrays = load_file(file)
        arrays["classes"] = np.arange(len(arrays["classes"]))
        save_file(arrays, file)


def raise_the_folds(directory: Path) -> None:
    edit(rerun_of(directory, "triplet"), lambda rerun: rerun["folds"][0].update(map_at_r=0.9))


def call_a_trained_network_fixed(directory: Path) -> None:
    edit(rerun_of(directory, "triplet"), lambda rerun: rerun.update(best_epochs=[]))


def delete_a_bad_rerun(directory: Path) -> None:
    for suffix in (".json", ".safetensors"):
        rerun_of(directory, "triplet").with_suffix(suffix).unlink()


def delete_a_whole_confirmation(directory: Path) -> None:
    shutil.rmtree(rerun_of(directory, "triplet").parent)


def borrow_a_rerun_of_another_experiment(directory: Path) -> None:
    edit(rerun_of(directory, "triplet"), lambda rerun: rerun.update(runs=["0" * 16, "1" * 16]))


def change_index_and_revision(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    edit(directory / "experiment.json", change)
    experiment = json.loads((directory / "experiment.json").read_text())["experiment"]
    lines = (directory / "revisions.jsonl").read_text().splitlines()
    lines[-1] = json.dumps(json.loads(lines[-1]) | {"experiment": experiment})
    (directory / "revisions.jsonl").write_text("\n".join(lines) + "\n")


def drop_a_method(directory: Path) -> None:
    def dropped(index: dict[str, Any]) -> None:
        kept = [method for method in index["experiment"]["methods"] if method["name"] != "contrastive"]
        index["experiment"]["methods"] = kept
        del index["selections"]["contrastive"], index["searches"]["contrastive"]

    change_index_and_revision(directory, dropped)


def claim_another_trunk(directory: Path) -> None:
    change_index_and_revision(directory, lambda index: index["experiment"]["trunk"].update(name="resnet50"))


def withdraw_a_note(directory: Path) -> None:
    """For example the one that says that images of the development part are in the test set too."""
    edit(directory / "experiment.json", lambda index: index.update(notes=["All is well."]))


def describe_another_split(directory: Path) -> None:
    edit(directory / "experiment.json", lambda index: index.update(split="class_disjoint, 10 folds"))


def state_another_plugin(directory: Path) -> None:
    edit(directory / "experiment.json", lambda index: index.update(plugins={}))


def delete_the_revisions(directory: Path) -> None:
    (directory / "revisions.jsonl").unlink()


def delete_the_length_of_the_ledger(directory: Path) -> None:
    (directory / "ledger.head.json").unlink()


@pytest.mark.parametrize(
    ("fraud", "problem"),
    [
        (raise_scores_and_queries, "rerun-00.json was changed after it was sealed"),
        (raise_scores_and_queries, "rerun-00.safetensors was changed after it was sealed"),
        (lower_the_baseline, "was changed after it was sealed"),
        (spread_the_classes_everywhere, "was changed after it was sealed"),
        (raise_the_folds, "was changed after it was sealed"),
        (call_a_trained_network_fixed, "was changed after it was sealed"),
        (delete_a_bad_rerun, "opened for rerun 1 of triplet, but its scores are not on record"),
        (delete_a_whole_confirmation, "opened for rerun 1, 2 of triplet, but its scores are not on record"),
        (borrow_a_rerun_of_another_experiment, "has scores from runs that are not on record"),
        (drop_a_method, "contrastive was scored on the test set and is left out"),
        (claim_another_trunk, "has trunk resnet50, but triplet was trained with conv4"),
        (withdraw_a_note, "experiment.json states other notes than revisions.jsonl"),
        (describe_another_split, "experiment.json states other split than revisions.jsonl"),
        (state_another_plugin, "experiment.json states other plugins than revisions.jsonl"),
        (delete_the_revisions, "revisions.jsonl is missing"),
        (delete_the_length_of_the_ledger, "ledger.head.json is missing"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_consistent_fraud_is_found(directory: Path, fraud: Callable[[Path], None], problem: str) -> None:
    fraud(directory)
    write_report(directory)  # a cheat writes the tables again
    assert any(problem in line for line in verify_experiment(directory)), verify_experiment(directory)


def test_an_edited_table_for_latex_is_found(directory: Path) -> None:
    file = write_report(directory).with_name("results.tex")
    file.write_text(file.read_text().replace("triplet", "mine"))
    assert any("results.tex" in line for line in verify_experiment(directory))


def test_running_again_does_not_seal_an_edited_score(values: dict[str, Any], directory: Path) -> None:
    raise_scores_and_queries(directory)
    more = values | {"confirm": {"reruns": 3, "gallery": 2}}  # the gallery writes into the same file
    lf.run(lf.Experiment.build(**more), directory)
    found = verify_experiment(directory)
    assert {line.rpartition("/")[2] for line in found} == {
        "rerun-00.json was changed after it was sealed",
        "rerun-00.safetensors was changed after it was sealed",
    }


@pytest.mark.parametrize("lost", ["line", "head", "half of the head"])
def test_a_ledger_that_was_cut_is_not_added_to(lost: str, values: dict[str, Any], directory: Path) -> None:
    """Otherwise the head that is written with the next line would hide the cut."""
    if lost == "line":
        (directory / "ledger.jsonl").write_text("\n".join(ledger_lines(directory)[:-1]) + "\n")
    elif lost == "head":
        (directory / "ledger.head.json").unlink()
    else:
        (directory / "ledger.head.json").write_text('{"lines": ')
    before = ledger_lines(directory)
    with pytest.raises(RunError, match="restore it from a copy, or begin with a new --out directory"):
        lf.run(lf.Experiment.build(**values | {"confirm": {"reruns": 3}}), directory)
    assert ledger_lines(directory) == before


def test_a_kill_before_the_seal_is_made_good(values: dict[str, Any], directory: Path) -> None:
    store = Store(directory)
    *openings, last = store.ledger()
    assert last.event == EVENT_SEALED
    store.ledger_file.unlink()
    store.ledger_head_file.unlink()
    for line in openings:
        store.append_ledger(line)
    lf.run(lf.Experiment.build(**values), directory)
    assert store.ledger()[-1].sealed == last.sealed
    assert verify_experiment(directory) == []


def test_lines_without_seals_have_the_names_that_they_had(directory: Path) -> None:
    """Ledgers that are older than seals stay whole."""
    first = Store(directory).ledger()[1]
    assert not {"sealed", "note", "departures"} & json.loads(ledger_lines(directory)[1]).keys()
    assert first.model_copy(update={"sealed": {"a": "b"}}).line_id != first.line_id


def test_a_rerun_whose_process_died_is_an_honest_failure(directory: Path, tmp_path: Path) -> None:
    file = rerun_of(directory, "triplet")
    run = RunDirectory(directory / "runs" / json.loads(file.read_text())["runs"][0])
    reason = "its process died 3 times"
    edit(run.path / "result.json", lambda result: result.update(status="failed", reason=reason))
    file.write_text(json.dumps({"failed": reason}))
    file.with_suffix(".safetensors").unlink()
    archive(directory, tmp_path / "archive")
    for root in (directory, tmp_path / "archive"):
        assert not any("recorded as failed" in line for line in verify_experiment(root))
