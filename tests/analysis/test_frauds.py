"""Frauds of a determined cheat that the directory itself proves wrong: ``levelfield verify`` finds them.

Each keeps the records as consistent as the cheat can: the ledger is chained and sealed again, and the report
is written again. ``test_verify.py`` and ``test_seals.py`` have simpler ones, ``test_outside.py`` those that
need a plan or an anchor.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file
from tests.helpers.forgery import Lines, rechain, replace_selection, reseal, restate, rewrite_search
from tests.helpers.tampering import edit, rerun_of, selection_of

import levelfield as lf
from levelfield.api import archive
from levelfield.records import EVENT_FROZEN, EVENT_SEALED, Store, read_selection
from levelfield.reports import experiment_notes, verify_experiment, write_report

Fraud = Callable[[Path], None]


def state(**sections: dict[str, Any] | int | list[str]) -> Fraud:
    """Return a fraud that states other settings in experiment.json and the revisions, sealed again."""

    def fraud(directory: Path) -> None:
        def change(index: dict[str, Any]) -> None:
            for name, values in sections.items():
                if isinstance(values, dict):
                    index["experiment"][name].update(values)
                else:
                    index["experiment"][name] = values

        restate(directory, change)
        reseal(directory)

    return fraud


def strip_the_seal_line(directory: Path) -> None:
    rechain(directory, lambda lines: [line for line in lines if line["event"] != EVENT_SEALED])


def raise_scores_and_strip_the_seal_line(directory: Path) -> None:
    from tests.analysis.test_seals import raise_scores_and_queries

    raise_scores_and_queries(directory)
    strip_the_seal_line(directory)


def drop_and_renumber_a_rerun(directory: Path) -> None:
    """Keep the better rerun of each method, as the first and only one."""
    for file in sorted(directory.glob("confirmations/*/rerun-00.json")):
        mine = file.parent == rerun_of(directory, "triplet").parent
        for suffix in (".json", ".safetensors"):
            first, second = (file.with_name(f"rerun-0{n}").with_suffix(suffix) for n in (0, 1))
            if mine:
                second.replace(first)
            else:
                second.unlink()

    def cut(lines: Lines) -> None:
        for line in lines:
            line["reruns"] = line["reruns"][:1]

    rechain(directory, cut)
    state(confirm={"reruns": 1})(directory)


def exchange_two_methods(directory: Path) -> None:
    """Everything of one method under the name of the other, with new names of selections."""
    store = Store(directory)
    one, other = (read_selection(selection_of(directory, name)) for name in ("triplet", "contrastive"))
    replace_selection(directory, "triplet", one.model_copy(update={"method": "temporary"}))
    replace_selection(directory, "contrastive", other.model_copy(update={"method": "triplet"}))
    replace_selection(directory, "temporary", one.model_copy(update={"method": "contrastive"}))

    def exchanged(index: dict[str, Any]) -> None:
        del index["selections"]["temporary"]
        names = index["searches"]
        names["triplet"], names["contrastive"] = names["contrastive"], names["triplet"]

    edit(directory / "experiment.json", exchanged)
    reseal(directory)
    assert store.selection(store.experiment_record().selections["triplet"][0]).method == "triplet"


def train_one_method_on_other_data(directory: Path) -> None:
    rewrite_search(directory, "triplet", lambda s: s["run"]["data"].update(fingerprint="0" * 16))


def train_one_method_longer(directory: Path) -> None:
    rewrite_search(directory, "triplet", lambda s: s["run"]["training"].update(max_epochs=99))


def give_one_method_a_better_start(directory: Path) -> None:
    rewrite_search(directory, "triplet", lambda s: s.update(first="defaults"))


def keep_another_search(directory: Path) -> None:
    rewrite_search(directory, "triplet", lambda s: s.update(repeat=2))


def narrow_the_search_space(directory: Path) -> None:
    def narrowed(search: dict[str, Any]) -> None:
        for found in search["space"].values():
            if found["kind"] == "float":
                found.update(low=found["high"] * 0.999999)

    rewrite_search(directory, "triplet", narrowed)


def set_a_value_unsaid(directory: Path) -> None:
    rewrite_search(directory, "triplet", lambda s: s["run"]["hyperparameters"].update(smooth=True))


def exchange_the_labels_of_two_metrics(directory: Path) -> None:
    def exchanged(index: dict[str, Any]) -> None:
        one, other = index["measures"][0], index["measures"][-1]
        one["label"], other["label"] = other["label"], one["label"]

    restate(directory, exchanged)
    reseal(directory)


def call_a_worse_value_better(directory: Path) -> None:
    restate(directory, lambda index: index["measures"][-1].update(higher_is_better=False))
    reseal(directory)


def date_an_opening_back(directory: Path) -> None:
    def dated(lines: Lines) -> None:
        line = next(line for line in lines if line["method"] == "triplet")
        line["time"] = (datetime.fromisoformat(line["time"]) - timedelta(hours=3)).isoformat()

    rechain(directory, dated)


def date_the_ledger_back(directory: Path) -> None:
    def dated(lines: Lines) -> None:
        for line in lines:
            line["time"] = (datetime.fromisoformat(line["time"]) - timedelta(days=30)).isoformat()

    rechain(directory, dated)


def open_before_the_selection(directory: Path) -> None:
    def moved(lines: Lines) -> Lines:
        frozen = next(line for line in lines if line["event"] == EVENT_FROZEN)
        rest = [line for line in lines if line is not frozen]
        return [rest[0], frozen, *rest[1:]]

    rechain(directory, moved)


def trial_file(directory: Path, number: int) -> Path:
    store = Store(directory)
    return store.trial_file(store.experiment_record().searches["triplet"][0], number)


def remove_a_trial(directory: Path) -> None:
    """A trial that failed or won against the wanted one is gone, and the next one takes its number."""
    chosen = read_selection(selection_of(directory, "triplet"))
    trial_file(directory, 1).replace(trial_file(directory, 0))
    edit(trial_file(directory, 0), lambda trial: trial.update(number=0))
    trial = json.loads(trial_file(directory, 0).read_text())
    forged = {"trial": 0, "score": trial["score"], "hyperparameters": trial["hyperparameters"]}
    replace_selection(directory, "triplet", chosen.model_copy(update=forged))
    state(search={"trials": 1})(directory)


def let_another_trial_win(directory: Path) -> None:
    """The trial that is best on the test set gets better folds, and so do its runs."""
    chosen = read_selection(selection_of(directory, "triplet"))
    wanted = 1 - (chosen.trial or 0)
    better = (chosen.score or 0.0) + 0.05

    def raised(trial: dict[str, Any]) -> None:
        trial.update(score=better, fold_scores=[better] * len(trial["runs"]))
        for run in trial["runs"]:
            edit(directory / "runs" / run / "result.json", lambda r: r["validation"].update(map_at_r=better))

    edit(trial_file(directory, wanted), raised)
    trial = json.loads(trial_file(directory, wanted).read_text())
    forged = {"trial": wanted, "score": better, "hyperparameters": trial["hyperparameters"]}
    replace_selection(directory, "triplet", chosen.model_copy(update=forged))
    reseal(directory)


def lower_a_trial_that_lost(directory: Path) -> None:
    """Make the search look harder than it was; runs and folds agree."""
    lost = 1 - (read_selection(selection_of(directory, "triplet")).trial or 0)

    def lowered(trial: dict[str, Any]) -> None:
        trial.update(score=0.01, fold_scores=[0.01] * len(trial["runs"]))
        for run in trial["runs"]:
            edit(directory / "runs" / run / "result.json", lambda r: r["validation"].update(map_at_r=0.01))

    edit(trial_file(directory, lost), lowered)


def call_a_trial_failed(directory: Path) -> None:
    """The trial that won on validation, so that the next one is selected and confirmed."""
    lost = 1 - (read_selection(selection_of(directory, "triplet")).trial or 0)
    edit(trial_file(directory, lost), lambda trial: trial.update(score=None, reason="out of memory"))
    reseal(directory)


def call_a_trial_pruned(directory: Path) -> None:
    lost = 1 - (read_selection(selection_of(directory, "triplet")).trial or 0)
    edit(trial_file(directory, lost), lambda trial: trial.update(score=None, reason="pruned", estimate=0.01))
    reseal(directory)


def empty_a_trial(directory: Path) -> None:
    lost = 1 - (read_selection(selection_of(directory, "triplet")).trial or 0)
    empty: dict[str, Any] = {"score": None, "reason": "no memory", "runs": [], "fold_scores": []}
    edit(trial_file(directory, lost), lambda trial: trial.update(empty))
    reseal(directory)


def drop_the_last_rerun_of_one_method(directory: Path) -> None:
    for suffix in (".json", ".safetensors"):
        rerun_of(directory, "triplet").with_name("rerun-01").with_suffix(suffix).unlink()

    def cut(lines: Lines) -> None:
        for line in lines:
            if line["method"] == "triplet":
                line["reruns"] = line["reruns"][:1]

    rechain(directory, cut)
    reseal(directory)


def copy_a_run(directory: Path) -> None:
    """The scores of a good network, under the name of another."""
    file = rerun_of(directory, "triplet")
    good, bad = json.loads(file.read_text())["runs"]
    shutil.rmtree(directory / "runs" / bad)
    shutil.copytree(directory / "runs" / good, directory / "runs" / bad)


def drop_a_fold(directory: Path) -> None:
    def cut(rerun: dict[str, Any]) -> None:
        rerun.update({key: rerun[key][:1] for key in ("runs", "folds", "best_epochs")})
        rerun["separated"] = rerun["folds"][0]

    file = rerun_of(directory, "triplet")
    edit(file, cut)
    means = json.loads(file.read_text())["separated"]
    arrays = load_file(file.with_suffix(".safetensors"))
    for metric, mean in means.items():
        if (key := f"separated.{metric}") in arrays:
            arrays[key] = arrays[key] + (mean - arrays[key].mean())
    save_file(arrays, file.with_suffix(".safetensors"))
    reseal(directory)


def raise_the_separated_scores(directory: Path) -> None:
    file = rerun_of(directory, "triplet")
    arrays = load_file(file.with_suffix(".safetensors"))
    arrays["separated.map_at_r"] = arrays["separated.map_at_r"] + 0.1
    save_file(arrays, file.with_suffix(".safetensors"))
    mean = float(arrays["separated.map_at_r"].astype(float).mean())
    edit(file, lambda rerun: rerun["separated"].update(map_at_r=mean))
    reseal(directory)


def shorten_the_training(directory: Path) -> None:
    edit(rerun_of(directory, "triplet"), lambda rerun: rerun.update(best_epochs=[7, 9]))
    reseal(directory)


def weaken_the_baseline(directory: Path) -> None:
    """The baseline is a network with a smaller head than the methods have."""
    chosen = read_selection(selection_of(directory, "untrained"))
    assert chosen.network is not None
    head = chosen.network.head.model_copy(update={"size": 2})
    network = chosen.network.model_copy(update={"head": head})
    replace_selection(directory, "untrained", chosen.model_copy(update={"network": network}))
    reseal(directory)


def hide_a_metric(directory: Path) -> None:
    kept = ["r_precision", "map_at_r"]

    def hidden(index: dict[str, Any]) -> None:
        index["experiment"]["metrics"] = kept
        index["measures"] = [m for m in index["measures"] if m["name"] in kept]

    restate(directory, hidden)
    reseal(directory)


def delete_all_values_of_queries(directory: Path) -> None:
    for file in directory.glob("confirmations/*/rerun-*.safetensors"):
        file.unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fraud", "problem"),
    [
        # of the audit
        (strip_the_seal_line, "rerun-00.json has no seal in the ledger"),
        (drop_and_renumber_a_rerun, "rerun 1 of triplet does not come from the runs that its search"),
        (state(seed=7), "has seed 7, but triplet was trained with 0"),
        (state(optimizer={"lr": 0.5}), "has optimizer.lr 0.5, but triplet was trained with 0.003"),
        (state(training={"max_epochs": 50}), "has training.max_epochs 50, but triplet was trained with 1"),
        (state(batch={"size": 64}), "has batch.size 64, but triplet was trained with 12"),
        (state(search={"sampler": "gp"}), "has search.sampler gp, but triplet was trained with random"),
        (state(head={"init": "pca"}), "has head.init pca, but triplet was trained with random"),
        (state(trunk={"width": 64}), "has trunk.width 64, but triplet was trained with 4"),
        (state(split={"folds": 9}), "has split.folds 9, but triplet was trained with 2"),
        (exchange_two_methods, "triplet is loss triplet with"),
        (train_one_method_on_other_data, "triplet has other data than untrained"),
        (train_one_method_longer, "has training.max_epochs 1, but triplet was trained with 99"),
        (exchange_the_labels_of_two_metrics, "shows metric precision_at_1 as MAP@R"),
        (date_an_opening_back, "hours before the selected trial ended"),
        (date_the_ledger_back, "days before the first revision"),
        # our own
        (raise_scores_and_strip_the_seal_line, "rerun-00.json has no seal in the ledger"),
        (open_before_the_selection, "before its selection was frozen"),
        (remove_a_trial, "trial 1 of triplet does not come from the runs that its search"),
        (let_another_trial_win, "rerun 1 of triplet does not come from the runs that its search"),
        (lower_a_trial_that_lost, "was changed after the selections were frozen"),
        (state(search={"trials": 50}), "the search of triplet has 2 of 50 trials on record"),
        (state(search={"trials": 1}), "the search of triplet has 2 trials on record, 1 were asked for"),
        (call_a_trial_failed, "of triplet has no score, but no fold of it failed"),
        (call_a_trial_pruned, "of triplet is called pruned, but its search does not prune"),
        (empty_a_trial, "of triplet has no score, but no fold of it failed"),
        (drop_the_last_rerun_of_one_method, "triplet has 1 of 2 reruns on record"),
        (state(confirm={"reruns": 3}), "triplet has 2 of 3 reruns on record"),
        (state(search={"repeats": 2}), "triplet has 1 of 2 searches on record"),
        (copy_a_run, "does not match its digest"),
        (drop_a_fold, "rerun 1 of triplet has 1 of 2 folds"),
        (raise_the_separated_scores, "the separated scores are not the means of the folds"),
        (shorten_the_training, "rerun 1 of triplet has other best epochs than its runs"),
        (weaken_the_baseline, "has head.size 8, but untrained was trained with 2"),
        (hide_a_metric, "metric precision_at_1 was scored on the test set and is left out"),
        (keep_another_search, "has number of the search 1, but triplet was trained with 3"),
        (give_one_method_a_better_start, "has search.first sampler, but triplet was trained with defaults"),
        (narrow_the_search_space, "outside its search space"),
        (set_a_value_unsaid, "triplet has fixed values that experiment.json does not state: smooth"),
        (call_a_worse_value_better, "lower is better"),
        (delete_all_values_of_queries, "was sealed and is missing"),
    ],
    ids=lambda value: getattr(value, "__name__", "") if callable(value) else "",
)
def test_a_fraud_that_the_directory_proves_is_found(directory: Path, fraud: Fraud, problem: str) -> None:
    fraud(directory)
    write_report(directory)  # a cheat writes the tables again
    assert any(problem in line for line in verify_experiment(directory)), verify_experiment(directory)


def give_a_trial_that_lost_other_values(directory: Path) -> None:
    lost = 1 - (read_selection(selection_of(directory, "triplet")).trial or 0)
    edit(trial_file(directory, lost), lambda trial: trial["hyperparameters"].update(margin=0.123))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fraud", "problem"),
    [
        (lower_a_trial_that_lost, "was changed after the selections were frozen"),
        (give_a_trial_that_lost_other_values, "does not come from the runs that its search"),
        (call_a_trial_failed, "of triplet has no score, but no fold of it failed"),
        (drop_the_last_rerun_of_one_method, "triplet has 1 of 2 reruns on record"),
        (drop_and_renumber_a_rerun, "rerun 1 of triplet does not come from the runs that its search"),
        (exchange_two_methods, "triplet is loss triplet with"),
        (state(optimizer={"lr": 0.5}), "has optimizer.lr 0.5, but triplet was trained with 0.003"),
        (date_the_ledger_back, "days before the first revision"),
        (strip_the_seal_line, "rerun-00.json has no seal in the ledger"),
    ],
    ids=lambda value: getattr(value, "__name__", "") if callable(value) else "",
)
def test_an_archive_shows_the_fraud_too(directory: Path, fraud: Fraud, problem: str, tmp_path: Path) -> None:
    fraud(directory)
    archive(directory, tmp_path / "archive")
    found = verify_experiment(tmp_path / "archive")
    assert any(problem in line for line in found), found


@pytest.mark.slow
@pytest.mark.parametrize("column", ["difference", "low"])
def test_an_edited_number_in_the_table_of_pairs_is_found(directory: Path, column: str) -> None:
    import csv

    file = write_report(directory).with_name("pairs.csv")
    assert verify_experiment(directory) == []
    with file.open(newline="") as text:
        lines = list(csv.DictReader(text))
    lines[0][column] = str(float(lines[0][column]) * 1.5 + 0.01)
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    assert any("pairs.csv" in line for line in verify_experiment(directory))


def test_a_clock_that_was_set_back_is_only_a_note(directory: Path) -> None:
    def set_back(lines: Lines) -> None:
        for line in lines[2:]:
            line["time"] = (datetime.fromisoformat(line["time"]) - timedelta(minutes=20)).isoformat()

    rechain(directory, set_back)
    assert verify_experiment(directory) == []
    assert any("a clock was set back" in note for note in experiment_notes(directory))


def test_an_experiment_with_another_seed_in_the_same_directory_is_noted(
    values: dict[str, Any], directory: Path
) -> None:
    assert experiment_notes(directory) == []
    lf.run(lf.Experiment.build(**values | {"seed": 1}), directory)
    assert verify_experiment(directory) == []
    opened, runs = experiment_notes(directory)
    assert opened == "the test set was opened for 3 more selections, which the experiment no longer shows"
    assert runs.startswith("16 finished runs on record belong to no trial or rerun")


def test_a_time_that_is_none_is_found(directory: Path) -> None:
    rechain(directory, lambda lines: lines[1].update(time="yesterday"))
    assert any("ledger line 2 has no valid time" in line for line in verify_experiment(directory))


def test_the_tools_of_the_cheat_leave_honest_records_alone(directory: Path) -> None:
    """Otherwise a fraud above might be found for the traces of its tool."""
    rechain(directory)
    reseal(directory)
    state(seed=0)(directory)
    rewrite_search(directory, "triplet", lambda s: s["run"]["training"].update(max_epochs=99))
    rewrite_search(directory, "triplet", lambda s: s["run"]["training"].update(max_epochs=1))
    assert verify_experiment(directory) == []
