"""Plans: a run keeps to its plan, or says why not; the log of openings notices a second experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import levelfield as lf
from levelfield.api import verify_notes
from levelfield.cli._app import run_app
from levelfield.core.errors import UsageError
from levelfield.records import EVENT_DEPARTED, EVENT_PLAN, Store, read_preregistration
from levelfield.records._openings import log_file

pytestmark = pytest.mark.slow  # experiments, end to end


@pytest.fixture
def quick(tiny: dict[str, Any]) -> dict[str, Any]:
    short = {"iterations_per_epoch": 1, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    return tiny | {"methods": ["triplet"], "training": short, "search": {"trials": 1, "sampler": "random"}}


@pytest.fixture
def experiment_file(quick: dict[str, Any], tmp_path: Path) -> Path:
    file = tmp_path / "exp.yaml"
    file.write_text(yaml.safe_dump(quick))
    return file


def events(directory: Path) -> list[str]:
    return [line.event for line in Store(directory).ledger()]


def test_a_run_as_planned_is_named_in_ledger_report_and_notes(
    experiment_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "runs"
    assert run_app(["preregister", str(experiment_file), "-o", str(plan)]) == 0
    said = capsys.readouterr().out
    digest = said.split("digest ")[1].split()[0]
    assert len(digest) == 64  # of 16 digits, two plans could be made to have one digest
    assert "1 methods, 1 searches, 1 trials, 2 folds, 2 reruns, seed 0" in said
    assert run_app(["run", str(experiment_file), "--out", str(out), "--plan", str(plan), "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert f"Preregistered with plan {digest}." in " ".join(printed.split())
    assert events(out)[0] == EVENT_PLAN and EVENT_DEPARTED not in events(out)
    assert digest in (out / "report" / "index.html").read_text()
    assert run_app(["verify", str(out), "--plan", str(plan)]) == 0
    assert "consistent and fit the plan" in capsys.readouterr().out
    before = events(out)
    lf.run(experiment_file, out)  # the plan stays in force, and nothing is written twice
    assert events(out) == before


def test_a_departure_is_refused_before_anything_is_computed(
    quick: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lf.preregister(quick, tmp_path / "plan.json")
    changed = tmp_path / "changed.yaml"
    changed.write_text(yaml.safe_dump(quick | {"seed": 5}))
    command = ["run", str(changed), "--out", str(tmp_path / "runs"), "--plan", str(tmp_path / "plan.json")]
    assert run_app(command) == 2
    said = capsys.readouterr().err
    assert "departs from its plan" in said and "seed is 5, planned was 0" in said and "--depart" in said
    assert not (tmp_path / "runs").exists()


def test_a_departure_with_a_reason_is_shown_everywhere(quick: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "runs"
    lf.preregister(quick, tmp_path / "plan.json")
    result = lf.run(quick | {"seed": 5}, out, plan=tmp_path / "plan.json", depart="seed 0 was used before")
    assert events(out)[:2] == [EVENT_PLAN, EVENT_DEPARTED]
    page = result.report.read_text()
    assert "seed is 5, planned was 0" in page and "seed 0 was used before" in page
    assert lf.verify(out, plan=tmp_path / "plan.json") == []
    notes = verify_notes(out, plan=tmp_path / "plan.json")
    assert any("seed is 5, planned was 0; the reason given is: seed 0 was used before" in n for n in notes)
    before = events(out)
    lf.run(quick | {"seed": 5}, out)  # a reason is given once
    assert events(out) == before
    with pytest.raises(UsageError, match=r"confirm.reruns is 3, planned was 2"):
        lf.run(quick | {"seed": 5, "confirm": {"reruns": 3, "gallery": 0}}, out)


def test_a_plan_after_the_first_opening_is_a_departure(quick: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "runs"
    lf.run(quick, out)
    lf.preregister(quick, tmp_path / "plan.json")
    with pytest.raises(UsageError, match="was opened before the plan was registered"):
        lf.run(quick, out, plan=tmp_path / "plan.json")


def test_a_directory_keeps_its_plan(quick: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "runs"
    lf.preregister(quick, tmp_path / "plan.json")
    lf.preregister(quick | {"seed": 5}, tmp_path / "other.json")
    lf.run(quick, out, plan=tmp_path / "plan.json", search_only=True)
    with pytest.raises(UsageError, match="choose a new --out directory"):
        lf.run(quick | {"seed": 5}, out, plan=tmp_path / "other.json")
    Store(out).plan_file.unlink()
    with pytest.raises(UsageError, match=r"plan\.json is missing; give it with --plan"):
        lf.run(quick, out)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"depart": "because"}, "--depart needs a plan"),
        ({"plan": "nowhere.json"}, "there is no plan"),
        ({"plan": "PLAN", "depart": " "}, "--depart needs a reason"),
    ],
)
def test_wrong_options_are_one_line(
    quick: dict[str, Any], options: dict[str, str], problem: str, tmp_path: Path
) -> None:
    lf.preregister(quick, tmp_path / "plan.json")
    given: dict[str, Any] = {
        key: str(tmp_path / "plan.json") if v == "PLAN" else v for key, v in options.items()
    }
    with pytest.raises(UsageError, match=problem):
        lf.run(quick, tmp_path / "runs", **given)


def test_a_plan_is_not_overwritten(quick: dict[str, Any], tmp_path: Path) -> None:
    lf.preregister(quick, tmp_path / "plan.json")
    with pytest.raises(UsageError, match="is not overwritten"):
        lf.preregister(quick, tmp_path / "plan.json")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of openings for the experiments of the test alone."""
    cache = tmp_path / "cache"
    monkeypatch.setattr("levelfield.records._openings.log_file", lambda data: cache / log_file(data).name)
    return cache


def opening_notes(directory: Path) -> list[str]:
    return [line.note for line in Store(directory).ledger() if "was opened before" in line.note]


def test_a_second_experiment_on_the_same_test_set_is_noticed(
    quick: dict[str, Any], log: Path, tmp_path: Path
) -> None:
    first = lf.run(quick | {"name": "first"}, tmp_path / "first")
    assert opening_notes(first.path) == []
    more = {"confirm": {"reruns": 3, "gallery": 0}}
    lf.run(quick | {"name": "first"} | more, tmp_path / "first")
    assert opening_notes(first.path) == [], "an experiment is not its own predecessor"
    (file,) = log.iterdir()
    assert len(file.read_text().splitlines()) == 1
    second = lf.run(quick | {"name": "second", "seed": 9}, tmp_path / "second")
    (note,) = opening_notes(second.path)
    assert "for 1 other experiment (first)" in note
    assert note in second.report.read_text()
    assert lf.verify(second) == [], "it is a note, not a problem"


def test_other_folds_do_not_hide_the_same_test_set(quick: dict[str, Any], log: Path, tmp_path: Path) -> None:
    lf.run(quick | {"name": "first"}, tmp_path / "first")
    lf.run(quick | {"name": "second", "split": {"name": "class_disjoint", "folds": 3}}, tmp_path / "second")
    (note,) = opening_notes(tmp_path / "second")
    assert "for 1 other experiment (first, another split or other folds)" in note
    assert len(list(log.iterdir())) == 1


def test_an_experiment_that_was_deleted_and_run_again_is_noticed(
    quick: dict[str, Any], log: Path, tmp_path: Path
) -> None:
    import shutil

    for seed in (0, 1):
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        lf.run(quick | {"seed": seed}, tmp_path / "runs")
    assert len(opening_notes(tmp_path / "runs")) == 1


def test_a_cache_that_cannot_be_written_stops_nothing(
    quick: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setattr("levelfield.records._openings.log_file", lambda data: tmp_path / "file" / "log.jsonl")
    assert lf.run(quick, tmp_path / "runs").report.exists()


def test_a_plan_with_the_short_digest_of_earlier_versions_is_read(
    experiment_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    assert run_app(["preregister", str(experiment_file), "-o", str(plan)]) == 0
    values = json.loads(plan.read_text())
    for digits in (16, 64):
        plan.write_text(json.dumps(values | {"digest": values["digest"][:digits]}))
        assert read_preregistration(plan).seed == 0
    for wrong in ("", values["digest"][:8], "0" * 16):
        plan.write_text(json.dumps(values | {"digest": wrong}))
        with pytest.raises(UsageError, match="its digest does not fit"):
            read_preregistration(plan)
