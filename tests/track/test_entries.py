"""Records become entries: every part once, parents first, under names that people can read."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from levelfield.records import RunFolder, Store
from levelfield.track import Entry
from levelfield.track._entries import Reader


def test_every_part_of_an_experiment_is_an_entry(records: Path) -> None:
    entries = list(Reader(Store(records)).entries())
    # 2 methods and the baseline; 2 trials and 2 reruns per method, of 2 folds each; the baseline's reruns
    assert Counter(entry.kind for entry in entries) == {
        "experiment": 1,
        "method": 3,
        "trial": 4,
        "rerun": 6,
        "run": 16,
    }
    assert len({entry.key for entry in entries}) == len(entries)
    assert len({entry.name for entry in entries}) == len(entries)
    assert {entry.key for entry in entries if entry.kind == "run"} == {
        path.name for path in (records / "runs").iterdir()
    }
    assert {entry.status for entry in entries} == {"complete"}
    assert "contrastive/trial-0001/fold-1" in {entry.name for entry in entries}


def test_parents_come_before_their_children(records: Path) -> None:
    told = set()
    for entry in Reader(Store(records)).entries():
        assert entry.parent is None or entry.parent in told
        told.add(entry.key)


def test_a_run_stands_under_the_trial_that_lists_it(records: Path) -> None:
    """The place of a run is known from its seed before its trial is written; both must agree."""
    store = Store(records)
    entries = {entry.key: entry for entry in Reader(store).entries()}
    checked = 0
    for method, (search,) in store.index().searches.items():
        for trial in store.trials(search):
            for fold, run in enumerate(trial.runs):
                assert entries[run].name == f"{method}/trial-{trial.number:04d}/fold-{fold}"
                assert entries[run].scores["best/map_at_r"] == trial.fold_scores[fold]
                checked += 1
    assert checked == 8


def test_the_curve_is_the_log(records: Path) -> None:
    for entry in Reader(Store(records)).entries():
        if entry.kind == "run":
            log = RunFolder(records / "runs" / entry.key).log()
            assert [point.step for point in entry.points] == [line.epoch for line in log]
            assert [point.values["validation/map_at_r"] for point in entry.points] == [
                line.scores["map_at_r"] for line in log
            ]


def test_an_unfinished_experiment_is_running(records: Path) -> None:
    """A killed run has no result, its trial no record, its method no selection."""
    store = Store(records)
    (search,) = store.index().searches["contrastive"]
    trial = store.trials(search)[1]
    store.trial_file(search, 1).unlink()
    (store.run(trial.runs[1]).path / "result.json").unlink()
    index = json.loads((records / "experiment.json").read_text())
    index["selections"] = {}
    (records / "experiment.json").write_text(json.dumps(index))
    entries = {entry.name: entry for entry in Reader(store).entries()}
    assert entries["contrastive/trial-0001"].status == "running"
    assert entries["contrastive/trial-0001"].parameters == trial.hyperparameters
    assert entries["contrastive/trial-0001/fold-0"].status == "complete"
    assert entries["contrastive/trial-0001/fold-1"].status == "running"
    assert entries["contrastive"].status == "running"


def test_runs_of_an_earlier_wording_are_left_out(records: Path) -> None:
    run = next((records / "runs").iterdir())
    spec = json.loads((run / "spec.json").read_text())
    spec["seed"] += 1
    (run / "spec.json").write_text(json.dumps(spec))
    assert run.name not in {entry.key for entry in Reader(Store(records)).entries()}


def test_settled_runs_are_not_read_again(records: Path) -> None:
    reader = Reader(Store(records))
    list(reader.entries())
    for run in (records / "runs").iterdir():
        (run / "epochs.jsonl").write_text("not read")
    kinds = {entry.kind for entry in reader.entries(settled=lambda key: True)}
    assert "run" not in kinds and "trial" in kinds


def test_a_report_counts_when_its_page_is_there(records: Path) -> None:
    """The page is written last: tables without it are half of a report."""
    page = records / "report" / "index.html"

    def experiment() -> Entry:
        return next(Reader(Store(records)).entries())

    assert experiment().status == "complete" and page in experiment().files
    page.unlink()
    assert experiment().status == "running" and not experiment().files
