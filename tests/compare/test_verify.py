"""``levelfield verify``: staged frauds are found, honest folders are left in peace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import levelfield as lf
from levelfield.cli._app import run_app
from levelfield.compare import archive
from levelfield.records import Store, read_selection
from levelfield.reports import verify_folder, write_report
from tampering import edit, ledger_lines, rerun_of, selection_of


def delete_the_ledger(folder: Path) -> None:
    (folder / "ledger.jsonl").unlink()
    (folder / "ledger.head.json").unlink()


def cut_the_ledger(folder: Path) -> None:
    (folder / "ledger.jsonl").write_text("\n".join(ledger_lines(folder)[:-1]) + "\n")


def remove_a_line_from_the_middle(folder: Path) -> None:
    lines = ledger_lines(folder)
    (folder / "ledger.jsonl").write_text("\n".join(lines[:1] + lines[2:]) + "\n")


def change_an_event(folder: Path) -> None:
    lines = ledger_lines(folder)
    lines[-1] = lines[-1].replace('"scores sealed"', '"opened for pictures"')
    (folder / "ledger.jsonl").write_text("\n".join(lines) + "\n")


def edit_a_selection(folder: Path) -> None:
    edit(selection_of(folder, "triplet"), lambda found: found["hyperparameters"].update(margin=0.123))


def choose_another_trial(folder: Path) -> None:
    """A frozen choice with a name that fits, but not the one that the trials give."""
    file = selection_of(folder, "triplet")
    chosen = read_selection(file)
    forged = chosen.model_copy(update={"trial": 1 - (chosen.trial or 0)})
    new = Store(folder).freeze(forged)
    edit(folder / "experiment.json", lambda index: index["selections"].update(triplet=[new.stem]))
    home = folder / "confirmations"
    (home / chosen.selection_id).rename(home / forged.selection_id)


def raise_a_score(folder: Path) -> None:
    edit(rerun_of(folder, "triplet"), lambda found: found["concatenated"].update(map_at_r=0.9))


def raise_the_queries(folder: Path) -> None:
    file = rerun_of(folder, "triplet").with_suffix(".safetensors")
    arrays = load_file(file)
    arrays["concatenated.map_at_r"] = np.ones_like(arrays["concatenated.map_at_r"])
    save_file(arrays, file)


def raise_a_trial(folder: Path) -> None:
    search = Store(folder).index().searches["triplet"][0]
    edit(Store(folder).trial_file(search, 0), lambda trial: trial.update(score=0.99))


def raise_a_fold(folder: Path) -> None:
    search = Store(folder).index().searches["triplet"][0]

    def raised(trial: dict[str, Any]) -> None:
        trial["fold_scores"] = [0.99, 0.99]
        trial["score"] = 0.99

    edit(Store(folder).trial_file(search, 0), raised)


def hide_the_test_feedback(folder: Path) -> None:
    edit(folder / "experiment.json", lambda index: index.update(leaky=True))


def edit_a_table(folder: Path) -> None:
    file = folder / "report" / "results.csv"
    file.write_text(file.read_text().replace("triplet", "mine"))


def add_a_rerun(folder: Path) -> None:
    file = rerun_of(folder, "triplet")
    for suffix in (".json", ".safetensors"):
        more = file.with_name("rerun-02").with_suffix(suffix)
        more.write_bytes(file.with_suffix(suffix).read_bytes())


def change_a_plugin(folder: Path) -> None:
    edit(
        folder / "experiment.json",
        lambda index: index.update(plugins=dict.fromkeys(index["plugins"], "0" * 16)),
    )


def publish(folder: Path) -> None:
    """A cheat writes the report again, so that the tables fit what was edited."""
    write_report(folder)


def exchange_two_methods(folder: Path) -> None:
    def exchanged(index: dict[str, Any]) -> None:
        for names in (index["selections"], index["searches"]):
            names["triplet"], names["contrastive"] = names["contrastive"], names["triplet"]

    edit(folder / "experiment.json", exchanged)
    publish(folder)


def exchange_the_scores_of_two_methods(folder: Path) -> None:
    one, other = rerun_of(folder, "triplet"), rerun_of(folder, "contrastive")
    for suffix in (".json", ".safetensors"):
        a, b = one.with_suffix(suffix), other.with_suffix(suffix)
        content = a.read_bytes()
        a.write_bytes(b.read_bytes())
        b.write_bytes(content)
    publish(folder)


def copy_the_best_rerun(folder: Path) -> None:
    file = rerun_of(folder, "triplet")
    for suffix in (".json", ".safetensors"):
        file.with_name("rerun-01").with_suffix(suffix).write_bytes(file.with_suffix(suffix).read_bytes())
    publish(folder)


def raise_a_score_without_queries(folder: Path) -> None:
    raise_a_score(folder)
    rerun_of(folder, "triplet").with_suffix(".safetensors").unlink()
    publish(folder)


def call_a_bad_rerun_failed(folder: Path) -> None:
    file = rerun_of(folder, "triplet")
    file.write_text(json.dumps({"failed": "the loss is NaN"}))
    file.with_suffix(".safetensors").unlink()
    publish(folder)


def hide_a_rerun(folder: Path) -> None:
    edit(folder / "experiment.json", lambda index: index["experiment"]["confirm"].update(reruns=1))
    publish(folder)


def spread_the_classes(folder: Path) -> None:
    file = rerun_of(folder, "triplet").with_suffix(".safetensors")
    arrays = load_file(file)
    arrays["classes"] = np.arange(len(arrays["classes"]))
    save_file(arrays, file)


def trial_file(folder: Path, number: int) -> Path:
    store = Store(folder)
    return store.trial_file(store.index().searches["triplet"][0], number)


def exchange_two_trials(folder: Path) -> None:
    one, other = trial_file(folder, 0), trial_file(folder, 1)
    content = one.read_text()
    one.write_text(other.read_text())
    other.write_text(content)


def edit_a_trial_that_lost(folder: Path) -> None:
    lost = 1 - (read_selection(selection_of(folder, "triplet")).trial or 0)
    edit(trial_file(folder, lost), lambda trial: trial["hyperparameters"].update(margin=0.123))


def delete_the_last_trial(folder: Path) -> None:
    trial_file(folder, 1).unlink()
    publish(folder)


def score_a_trial_by_another_metric(folder: Path) -> None:
    def raised(trial: dict[str, Any]) -> None:
        runs = [Store(folder).run(name).result() for name in trial["runs"]]
        trial["fold_scores"] = [max(run.validation.values()) for run in runs if run is not None]
        trial["score"] = sum(trial["fold_scores"]) / len(runs)

    edit(trial_file(folder, 0), raised)


def restore_an_older_length(folder: Path) -> None:
    first = Store(folder).ledger()[0].line_id
    edit(folder / "ledger.head.json", lambda head: head.update(lines=1, last=first))


def delete_the_ledger_and_zero_its_length(folder: Path) -> None:
    (folder / "ledger.jsonl").unlink()
    edit(folder / "ledger.head.json", lambda head: head.update(lines=0))


def forget_a_plugin(folder: Path) -> None:
    edit(folder / "experiment.json", lambda index: index.update(plugins={}))


def change_a_verdict(folder: Path) -> None:
    publish(folder)
    file = folder / "report" / "pairs.csv"
    file.write_text(file.read_text().replace("undecided", "better").replace("equivalent", "better"))


def rename_in_the_table(folder: Path) -> None:
    publish(folder)
    file = folder / "report" / "results.md"
    file.write_text(file.read_text().replace("triplet", "mine"))


@pytest.mark.parametrize(
    ("fraud", "finding"),
    [
        (delete_the_ledger, "no opening"),
        (cut_the_ledger, "it was cut"),
        (remove_a_line_from_the_middle, "edited or removed"),
        (change_an_event, "it was edited"),
        (edit_a_selection, "changed after it was frozen"),
        (choose_another_trial, "do not give"),
        (raise_a_score, "not the mean of its queries"),
        (raise_the_queries, "not the mean of its queries"),
        (raise_a_trial, "mean score of its folds"),
        (raise_a_fold, "another score than its run"),
        (hide_the_test_feedback, "leaky"),
        (edit_a_table, "results.csv"),
        (add_a_rerun, "no opening of the test set was noted for rerun 3"),
        (change_a_plugin, "has changed since the test set was opened"),
        (exchange_two_methods, "triplet is shown with the selection of contrastive"),
        (exchange_the_scores_of_two_methods, "has the scores of another choice"),
        (copy_the_best_rerun, "rerun 2 of triplet is a copy of rerun 1"),
        (raise_a_score_without_queries, "values of its queries are missing"),
        (call_a_bad_rerun_failed, "said to have failed"),
        (hide_a_rerun, "rerun 2 of triplet was scored on the test set and is left out"),
        (hide_a_rerun, "not the last revision"),
        (spread_the_classes, "classes of the test queries"),
        (exchange_two_trials, "is a copy of trial"),
        (edit_a_trial_that_lost, "other values than its run"),
        (delete_the_last_trial, "1 of 2 trials"),
        (score_a_trial_by_another_metric, "another score than its run"),
        (restore_an_older_length, "an older copy"),
        (delete_the_ledger_and_zero_its_length, "restore it from a copy"),
        (forget_a_plugin, "no part of the experiment now"),
        (change_a_verdict, "pairs.csv"),
        (rename_in_the_table, "results.md"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_staged_fraud_is_found(
    folder: Path, fraud: Callable[[Path], None], finding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fraud(folder)
    assert any(finding in line for line in verify_folder(folder)), verify_folder(folder)
    assert run_app(["verify", str(folder)]) == 1
    assert finding in capsys.readouterr().out


def test_an_honest_folder_has_no_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_folder(folder) == []
    assert run_app(["verify", str(folder)]) == 0
    assert "fit together" in capsys.readouterr().out


def test_values_that_the_experiment_sets_are_honest(values: dict[str, Any], tmp_path: Path) -> None:
    """Runs have them, trials and choices do not: they were not searched."""
    set_by_hand = values | {"methods": [{"name": "triplet", "set": {"smooth": True}}, "contrastive"]}
    root = lf.run(lf.Experiment.build(**set_by_hand), tmp_path / "set")
    assert verify_folder(root) == []
    archive(root, tmp_path / "copy")
    assert verify_folder(tmp_path / "copy") == []


def test_growing_an_experiment_is_honest_and_said(values: dict[str, Any], folder: Path) -> None:
    grown = values | {"confirm": {"reruns": 3}, "search": values["search"] | {"trials": 3}}
    more_reruns = values | {"confirm": {"reruns": 3}}
    lf.run(lf.Experiment.build(**more_reruns), folder)
    assert any("reruns added after a look" in line for line in ledger_lines(folder))
    lf.run(lf.Experiment.build(**grown), folder)
    assert verify_folder(folder) == []


def test_searches_added_and_dropped_after_a_look_are_said(
    values: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelfield.protocol._run.now", lambda: "2999-01-01T00:00:00+00:00")  # much later
    more = values | {"search": values["search"] | {"repeats": 2}}
    lf.run(lf.Experiment.build(**more), folder)
    assert sum("search added after a look" in line for line in ledger_lines(folder)) == 2
    assert verify_folder(folder) == [], "more searches are honest"
    lf.run(lf.Experiment.build(**values), folder)
    assert any(
        "search 2 of triplet was scored on the test set and is left out" in f for f in verify_folder(folder)
    )


def test_one_recipe_under_two_names_is_shown(values: dict[str, Any], folder: Path) -> None:
    renamed = values | {"methods": [{"name": "brand_new", "loss": "triplet"}, "contrastive"]}
    lf.run(lf.Experiment.build(**renamed), folder)
    assert any("one recipe under 2 names" in line for line in verify_folder(folder))


def test_the_report_shows_the_findings(folder: Path) -> None:
    raise_a_score(folder)
    assert "not the mean of its queries" in write_report(folder).read_text()


def test_a_forged_selection_is_not_confirmed(values: dict[str, Any], folder: Path) -> None:
    import shutil

    edit_a_selection(folder)
    shutil.rmtree(folder / "confirmations")
    with pytest.raises(lf.errors.LevelfieldError, match="not what was frozen under that name"):
        lf.run(lf.Experiment.build(**values), folder)


def test_a_damaged_length_of_the_ledger_is_to_be_restored(folder: Path) -> None:
    (folder / "ledger.head.json").write_text('{"lines": ')
    assert any("restore it from a copy" in line for line in verify_folder(folder))


def test_a_damaged_file_of_queries_is_named(folder: Path) -> None:
    file = rerun_of(folder, "triplet").with_suffix(".safetensors")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(lf.errors.RunError, match=r"rerun-00\.safetensors is damaged"):
        verify_folder(folder)
