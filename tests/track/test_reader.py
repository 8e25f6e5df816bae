"""Reading tracker records: every part of an experiment once, parents first, with readable names."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from levelfield.records import RunDirectory, Store
from levelfield.track import TrackerRecord
from levelfield.track._reader import RecordReader


def test_every_part_of_an_experiment_has_a_record(records: Path) -> None:
    tracked = list(RecordReader(Store(records)).read())
    # 2 methods and the baseline; 2 trials and 2 reruns per method, of 2 folds each; the baseline's reruns
    assert Counter(record.kind for record in tracked) == {
        "experiment": 1,
        "method": 3,
        "trial": 4,
        "rerun": 6,
        "run": 16,
    }
    assert len({record.key for record in tracked}) == len(tracked)
    assert len({record.name for record in tracked}) == len(tracked)
    assert {record.key for record in tracked if record.kind == "run"} == {
        path.name for path in (records / "runs").iterdir()
    }
    assert {record.status for record in tracked} == {"complete"}
    assert "contrastive/trial-0001/fold-1" in {record.name for record in tracked}


def test_parents_come_before_their_children(records: Path) -> None:
    seen = set()
    for record in RecordReader(Store(records)).read():
        assert record.parent is None or record.parent in seen
        seen.add(record.key)


def test_a_run_stands_under_the_trial_that_lists_it(records: Path) -> None:
    """The place of a run is known from its seed before its trial is written; both must agree."""
    store = Store(records)
    tracked = {record.key: record for record in RecordReader(store).read()}
    checked = 0
    for method, (search,) in store.experiment_record().searches.items():
        for trial in store.trials(search):
            for fold, run in enumerate(trial.runs):
                assert tracked[run].name == f"{method}/trial-{trial.number:04d}/fold-{fold}"
                assert tracked[run].scores["best/map_at_r"] == trial.fold_scores[fold]
                checked += 1
    assert checked == 8


def test_the_curve_is_the_log(records: Path) -> None:
    for record in RecordReader(Store(records)).read():
        if record.kind == "run":
            log = RunDirectory(records / "runs" / record.key).log()
            assert [point.step for point in record.points] == [line.epoch for line in log]
            assert [point.values["validation/map_at_r"] for point in record.points] == [
                line.scores["map_at_r"] for line in log
            ]


def test_an_unfinished_experiment_is_running(records: Path) -> None:
    """A killed run has no result, its trial no record, its method no selection."""
    store = Store(records)
    (search,) = store.experiment_record().searches["contrastive"]
    trial = store.trials(search)[1]
    store.trial_file(search, 1).unlink()
    (store.run(trial.runs[1]).path / "result.json").unlink()
    index = json.loads((records / "experiment.json").read_text())
    index["selections"] = {}
    (records / "experiment.json").write_text(json.dumps(index))
    tracked = {record.name: record for record in RecordReader(store).read()}
    assert tracked["contrastive/trial-0001"].status == "running"
    assert tracked["contrastive/trial-0001"].parameters == trial.hyperparameters
    assert tracked["contrastive/trial-0001/fold-0"].status == "complete"
    assert tracked["contrastive/trial-0001/fold-1"].status == "running"
    assert tracked["contrastive"].status == "running"


def test_runs_of_an_earlier_wording_are_left_out(records: Path) -> None:
    run = next((records / "runs").iterdir())
    spec = json.loads((run / "spec.json").read_text())
    spec["seed"] += 1
    (run / "spec.json").write_text(json.dumps(spec))
    assert run.name not in {record.key for record in RecordReader(Store(records)).read()}


def test_final_runs_are_not_read_again(records: Path) -> None:
    reader = RecordReader(Store(records))
    list(reader.read())
    for run in (records / "runs").iterdir():
        (run / "epochs.jsonl").write_text("not read")
    kinds = {record.kind for record in reader.read(is_final=lambda key: True)}
    assert "run" not in kinds and "trial" in kinds


def test_a_report_counts_when_its_page_is_there(records: Path) -> None:
    """The page is written last: tables without it are half of a report."""
    page = records / "report" / "index.html"

    def experiment() -> TrackerRecord:
        return next(RecordReader(Store(records)).read())

    assert experiment().status == "complete" and page in experiment().files
    page.unlink()
    assert experiment().status == "running" and not experiment().files
