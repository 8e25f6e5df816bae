"""``levelfield verify``: staged frauds are found; honest records have no problems."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.helpers.tampering import edit, ledger_lines, rerun_of, selection_of

import levelfield as lf
from levelfield.api import archive
from levelfield.cli._app import run_app
from levelfield.records import EVENT_GALLERY, EVENT_SEALED, Store, read_selection
from levelfield.reports import verify_experiment, write_report

pytestmark = pytest.mark.slow  # experiments, end to end


def delete_the_ledger(directory: Path) -> None:
    (directory / "ledger.jsonl").unlink()
    (directory / "ledger.head.json").unlink()


def cut_the_ledger(directory: Path) -> None:
    (directory / "ledger.jsonl").write_text("\n".join(ledger_lines(directory)[:-1]) + "\n")


def remove_a_line_from_the_middle(directory: Path) -> None:
    lines = ledger_lines(directory)
    (directory / "ledger.jsonl").write_text("\n".join(lines[:1] + lines[2:]) + "\n")


def change_an_event(directory: Path) -> None:
    lines = ledger_lines(directory)
    lines[-1] = lines[-1].replace(EVENT_SEALED, EVENT_GALLERY)
    (directory / "ledger.jsonl").write_text("\n".join(lines) + "\n")


def edit_a_selection(directory: Path) -> None:
    edit(selection_of(directory, "triplet"), lambda found: found["hyperparameters"].update(margin=0.123))


def choose_another_trial(directory: Path) -> None:
    """A frozen selection with a matching digest, but not the one that the trials give."""
    file = selection_of(directory, "triplet")
    chosen = read_selection(file)
    forged = chosen.model_copy(update={"trial": 1 - (chosen.trial or 0)})
    new = Store(directory).freeze(forged)
    edit(directory / "experiment.json", lambda index: index["selections"].update(triplet=[new.stem]))
    home = directory / "confirmations"
    (home / chosen.selection_id).rename(home / forged.selection_id)


def raise_a_score(directory: Path) -> None:
    edit(rerun_of(directory, "triplet"), lambda found: found["concatenated"].update(map_at_r=0.9))


def raise_the_queries(directory: Path) -> None:
    file = rerun_of(directory, "triplet").with_suffix(".safetensors")
    arrays = load_file(file)
    arrays["concatenated.map_at_r"] = np.ones_like(arrays["concatenated.map_at_r"])
    save_file(arrays, file)


def raise_a_trial(directory: Path) -> None:
    search = Store(directory).experiment_record().searches["triplet"][0]
    edit(Store(directory).trial_file(search, 0), lambda trial: trial.update(score=0.99))


def raise_a_fold(directory: Path) -> None:
    search = Store(directory).experiment_record().searches["triplet"][0]

    def raised(trial: dict[str, Any]) -> None:
        trial["fold_scores"] = [0.99, 0.99]
        trial["score"] = 0.99

    edit(Store(directory).trial_file(search, 0), raised)


def hide_the_test_feedback(directory: Path) -> None:
    edit(directory / "experiment.json", lambda index: index.update(leaky=True))


def edit_a_table(directory: Path) -> None:
    file = directory / "report" / "results.csv"
    file.write_text(file.read_text().replace("triplet", "mine"))


def add_a_rerun(directory: Path) -> None:
    file = rerun_of(directory, "triplet")
    for suffix in (".json", ".safetensors"):
        more = file.with_name("rerun-02").with_suffix(suffix)
        more.write_bytes(file.with_suffix(suffix).read_bytes())


def change_a_plugin(directory: Path) -> None:
    edit(
        directory / "experiment.json",
        lambda index: index.update(plugins=dict.fromkeys(index["plugins"], "0" * 16)),
    )


def publish(directory: Path) -> None:
    """Write the report again, so that the tables match the edited records."""
    write_report(directory)


def exchange_two_methods(directory: Path) -> None:
    def exchanged(index: dict[str, Any]) -> None:
        for names in (index["selections"], index["searches"]):
            names["triplet"], names["contrastive"] = names["contrastive"], names["triplet"]

    edit(directory / "experiment.json", exchanged)
    publish(directory)


def exchange_the_scores_of_two_methods(directory: Path) -> None:
    one, other = rerun_of(directory, "triplet"), rerun_of(directory, "contrastive")
    for suffix in (".json", ".safetensors"):
        a, b = one.with_suffix(suffix), other.with_suffix(suffix)
        content = a.read_bytes()
        a.write_bytes(b.read_bytes())
        b.write_bytes(content)
    publish(directory)


def copy_the_best_rerun(directory: Path) -> None:
    file = rerun_of(directory, "triplet")
    for suffix in (".json", ".safetensors"):
        file.with_name("rerun-01").with_suffix(suffix).write_bytes(file.with_suffix(suffix).read_bytes())
    publish(directory)


def raise_a_score_without_queries(directory: Path) -> None:
    raise_a_score(directory)
    rerun_of(directory, "triplet").with_suffix(".safetensors").unlink()
    publish(directory)


def call_a_bad_rerun_failed(directory: Path) -> None:
    file = rerun_of(directory, "triplet")
    file.write_text(json.dumps({"failed": "the loss is NaN"}))
    file.with_suffix(".safetensors").unlink()
    publish(directory)


def hide_a_rerun(directory: Path) -> None:
    edit(directory / "experiment.json", lambda index: index["experiment"]["confirm"].update(reruns=1))
    publish(directory)


def spread_the_classes(directory: Path) -> None:
    file = rerun_of(directory, "triplet").with_suffix(".safetensors")
    arrays = load_file(file)
    arrays["classes"] = np.arange(len(arrays["classes"]))
    save_file(arrays, file)


def trial_file(directory: Path, number: int) -> Path:
    store = Store(directory)
    return store.trial_file(store.experiment_record().searches["triplet"][0], number)


def exchange_two_trials(directory: Path) -> None:
    one, other = trial_file(directory, 0), trial_file(directory, 1)
    content = one.read_text()
    one.write_text(other.read_text())
    other.write_text(content)


def edit_a_trial_that_lost(directory: Path) -> None:
    lost = 1 - (read_selection(selection_of(directory, "triplet")).trial or 0)
    edit(trial_file(directory, lost), lambda trial: trial["hyperparameters"].update(margin=0.123))


def delete_the_last_trial(directory: Path) -> None:
    trial_file(directory, 1).unlink()
    publish(directory)


def score_a_trial_by_another_metric(directory: Path) -> None:
    def raised(trial: dict[str, Any]) -> None:
        runs = [Store(directory).run(name).result() for name in trial["runs"]]
        trial["fold_scores"] = [max(run.validation.values()) for run in runs if run is not None]
        trial["score"] = sum(trial["fold_scores"]) / len(runs)

    edit(trial_file(directory, 0), raised)


def restore_an_older_length(directory: Path) -> None:
    first = Store(directory).ledger()[0].line_id
    edit(directory / "ledger.head.json", lambda head: head.update(lines=1, last=first))


def delete_the_ledger_and_zero_its_length(directory: Path) -> None:
    (directory / "ledger.jsonl").unlink()
    edit(directory / "ledger.head.json", lambda head: head.update(lines=0))


def forget_a_plugin(directory: Path) -> None:
    edit(directory / "experiment.json", lambda index: index.update(plugins={}))


def change_a_verdict(directory: Path) -> None:
    publish(directory)
    file = directory / "report" / "pairs.csv"
    file.write_text(file.read_text().replace("undecided", "better").replace("equivalent", "better"))


def rename_in_the_table(directory: Path) -> None:
    publish(directory)
    file = directory / "report" / "results.md"
    file.write_text(file.read_text().replace("triplet", "mine"))


@pytest.mark.parametrize(
    ("fraud", "problem"),
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
        (add_a_rerun, "no opening of the test set for rerun 3"),
        (change_a_plugin, "has changed since the test set was opened"),
        (exchange_two_methods, "triplet is shown with the selection of contrastive"),
        (exchange_the_scores_of_two_methods, "has the scores of another selection"),
        (copy_the_best_rerun, "rerun 2 of triplet is a copy of rerun 1"),
        (raise_a_score_without_queries, "no values of its queries"),
        (call_a_bad_rerun_failed, "recorded as failed"),
        (hide_a_rerun, "rerun 2 of triplet was scored on the test set and is left out"),
        (hide_a_rerun, "not the last revision"),
        (spread_the_classes, "classes of the test queries"),
        (exchange_two_trials, "is a copy of trial"),
        (edit_a_trial_that_lost, "other values than its run"),
        (delete_the_last_trial, "1 of 2 trials"),
        (score_a_trial_by_another_metric, "another score than its run"),
        (restore_an_older_length, "an older copy"),
        (delete_the_ledger_and_zero_its_length, "restore it from a copy"),
        (forget_a_plugin, "not part of the experiment now"),
        (change_a_verdict, "pairs.csv"),
        (rename_in_the_table, "results.md"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_staged_fraud_is_found(
    directory: Path, fraud: Callable[[Path], None], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fraud(directory)
    assert any(problem in line for line in verify_experiment(directory)), verify_experiment(directory)
    assert run_app(["verify", str(directory)]) == 1
    assert problem in capsys.readouterr().out


def test_an_honest_directory_has_no_problem(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_experiment(directory) == []
    assert run_app(["verify", str(directory)]) == 0
    assert "are consistent" in capsys.readouterr().out


def test_values_that_the_experiment_sets_are_honest(values: dict[str, Any], tmp_path: Path) -> None:
    """Runs have them, trials and choices do not: they were not searched."""
    set_by_hand = values | {"methods": [{"name": "triplet", "set": {"smooth": True}}, "contrastive"]}
    root = lf.run(lf.Experiment.build(**set_by_hand), tmp_path / "set").path
    assert verify_experiment(root) == []
    archive(root, tmp_path / "copy")
    assert verify_experiment(tmp_path / "copy") == []


def test_growing_an_experiment_is_honest_and_said(values: dict[str, Any], directory: Path) -> None:
    grown = values | {"confirm": {"reruns": 3}, "search": values["search"] | {"trials": 3}}
    more_reruns = values | {"confirm": {"reruns": 3}}
    lf.run(lf.Experiment.build(**more_reruns), directory)
    assert any("reruns added after a look" in line for line in ledger_lines(directory))
    lf.run(lf.Experiment.build(**grown), directory)
    assert verify_experiment(directory) == []


def test_searches_added_and_dropped_after_a_look_are_said(
    values: dict[str, Any], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelfield.protocol._run.now", lambda: "2999-01-01T00:00:00+00:00")  # much later
    more = values | {"search": values["search"] | {"repeats": 2}}
    lf.run(lf.Experiment.build(**more), directory)
    assert sum("search added after a look" in line for line in ledger_lines(directory)) == 2
    assert verify_experiment(directory) == [], "more searches are honest"
    lf.run(lf.Experiment.build(**values), directory)
    assert any(
        "search 2 of triplet was scored on the test set and is left out" in f
        for f in verify_experiment(directory)
    )


def test_one_recipe_under_two_names_is_shown(values: dict[str, Any], directory: Path) -> None:
    renamed = values | {"methods": [{"name": "brand_new", "loss": "triplet"}, "contrastive"]}
    lf.run(lf.Experiment.build(**renamed), directory)
    assert any("one recipe under 2 names" in line for line in verify_experiment(directory))


def test_the_report_shows_the_problems(directory: Path) -> None:
    raise_a_score(directory)
    assert "not the mean of its queries" in write_report(directory).read_text()


def test_a_forged_selection_is_not_confirmed(values: dict[str, Any], directory: Path) -> None:
    import shutil

    edit_a_selection(directory)
    shutil.rmtree(directory / "confirmations")
    with pytest.raises(lf.errors.LevelfieldError, match="differs from the selection frozen under that name"):
        lf.run(lf.Experiment.build(**values), directory)


def test_a_damaged_length_of_the_ledger_is_to_be_restored(directory: Path) -> None:
    (directory / "ledger.head.json").write_text('{"lines": ')
    assert any("restore it from a copy" in line for line in verify_experiment(directory))


def test_a_damaged_file_of_queries_is_named(directory: Path) -> None:
    file = rerun_of(directory, "triplet").with_suffix(".safetensors")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(lf.errors.RunError, match=r"rerun-00\.safetensors is damaged"):
        verify_experiment(directory)
