"""Frauds that leave a consistent directory: only a plan or an anchor, kept elsewhere, finds them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.test_frauds import trial_file
from tests.analysis.test_seals import raise_scores_and_queries, spread_the_classes_everywhere
from tests.helpers.forgery import Lines, erase_method, rechain, reseal, restate, rewrite_search
from tests.helpers.tampering import edit, selection_of

import levelfield as lf
from levelfield.api import archive, verify_notes
from levelfield.cli._app import run_app
from levelfield.core.errors import UsageError
from levelfield.records import EVENT_FROZEN, Store, read_selection
from levelfield.reports import write_report

pytestmark = pytest.mark.slow  # experiments, end to end


def raise_and_reseal(directory: Path) -> None:
    raise_scores_and_queries(directory)
    reseal(directory)


def spread_classes_and_reseal(directory: Path) -> None:
    spread_the_classes_everywhere(directory)
    reseal(directory)


def lower_a_losing_trial_and_reseal(directory: Path) -> None:
    lost = 1 - (read_selection(selection_of(directory, "triplet")).trial or 0)

    def lowered(trial: dict[str, Any]) -> None:
        trial.update(score=0.01, fold_scores=[0.01] * len(trial["runs"]))
        for run in trial["runs"]:
            edit(directory / "runs" / run / "result.json", lambda r: r["validation"].update(map_at_r=0.01))
            (directory / "runs" / run / "epochs.jsonl").unlink()  # its learning curve would show it

    edit(trial_file(directory, lost), lowered)
    reseal(directory)


def erase_a_method(directory: Path) -> None:
    erase_method(directory, "contrastive")


def hide_an_opening(directory: Path) -> None:
    """The test set was opened for pictures, after the scores; the line is gone."""
    rechain(directory, lambda lines: lines[:-1])


def date_everything_back(directory: Path) -> None:
    def earlier(text: str) -> str:
        return (datetime.fromisoformat(text) - timedelta(days=30)).isoformat()

    def dated(lines: Lines) -> None:
        for line in lines:
            line["time"] = earlier(line["time"])

    rechain(directory, dated)
    file = directory / "revisions.jsonl"
    revisions = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(r | {"time": earlier(r["time"])}) + "\n" for r in revisions))
    for record in directory.glob("runs/*/provenance.json"):
        edit(record, lambda found: found.update(finished=earlier(found["finished"])))
    reseal(directory)


def widen_a_search_space(directory: Path) -> None:
    """Every name, trial, score and seal of the method is computed again."""

    def widened(search: dict[str, Any]) -> None:
        for found in search["space"].values():
            if found["kind"] == "float":
                found.update(high=found["high"] * 2)

    rewrite_search(directory, "triplet", widened)


def drop_the_last_rerun_everywhere(directory: Path) -> None:
    """The numbers of the others stay, so their seeds fit."""
    for file in directory.glob("confirmations/*/rerun-01.*"):
        file.unlink()

    def cut(lines: Lines) -> None:
        for line in lines:
            line["reruns"] = [rerun for rerun in line["reruns"] if rerun == 0]

    rechain(directory, cut)
    restate(directory, lambda index: index["experiment"]["confirm"].update(reruns=1))
    reseal(directory)


def withdraw_a_note_and_reseal(directory: Path) -> None:
    restate(directory, lambda index: index.update(notes=["All is well."]))
    reseal(directory)


def strip_the_frozen_line(directory: Path) -> None:
    rechain(directory, lambda lines: [line for line in lines if line["event"] != EVENT_FROZEN])


@pytest.fixture
def looked(directory: Path) -> Path:
    """An honest experiment whose test set was opened once more after its scores were sealed."""
    from levelfield.protocol.guard import open_for_gallery

    open_for_gallery(Store(directory), selection_of(directory, "triplet"))
    return directory


@pytest.mark.parametrize(
    "fraud",
    [
        raise_and_reseal,
        spread_classes_and_reseal,
        lower_a_losing_trial_and_reseal,
        erase_a_method,
        hide_an_opening,
        date_everything_back,
        widen_a_search_space,
        drop_the_last_rerun_everywhere,
        withdraw_a_note_and_reseal,
        strip_the_frozen_line,
    ],
)
def test_only_an_anchor_finds_a_consistent_rewrite(
    looked: Path, fraud: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "anchor.json"
    anchor = lf.anchor(looked, file=file)
    assert lf.verify(looked, anchor=file) == lf.verify(looked, anchor=anchor.digest) == []
    fraud(looked)
    write_report(looked)
    assert lf.verify(looked) == [], "the directory alone does not show it"
    assert any("does not have the anchored line" in line for line in lf.verify(looked, anchor=file))
    assert run_app(["verify", str(looked), "--anchor", anchor.digest]) == 1
    assert "does not have the anchored line" in capsys.readouterr().out


def test_an_anchor_file_covers_the_trials_of_a_ledger_without_their_seals(
    directory: Path, tmp_path: Path
) -> None:
    strip_the_frozen_line(directory)  # as an earlier version wrote it
    lf.anchor(directory, file=tmp_path / "anchor.json")
    lower_a_losing_trial_and_reseal(directory)
    assert lf.verify(directory) == []
    found = lf.verify(directory, anchor=tmp_path / "anchor.json")
    assert len(found) == 1 and "is not what was anchored" in found[0]


def test_an_anchor_fits_the_archive_and_a_grown_experiment(
    values: dict[str, Any], directory: Path, tmp_path: Path
) -> None:
    anchor = lf.anchor(directory, file=tmp_path / "anchor.json")
    archive(directory, tmp_path / "archived")
    assert lf.verify(tmp_path / "archived", anchor=tmp_path / "anchor.json") == []
    grown = values | {"confirm": {"reruns": 3}, "search": values["search"] | {"trials": 3}}
    lf.run(lf.Experiment.build(**grown), directory)
    assert lf.verify(directory, anchor=tmp_path / "anchor.json") == []
    assert any("later than the anchor" in note for note in verify_notes(directory, anchor=anchor.digest))


def test_an_anchor_goes_into_git(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(directory), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    git("config", "user.name", "a")
    git("config", "user.email", "a@b")
    git("commit", "-q", "--allow-empty", "-m", "empty")
    assert run_app(["anchor", str(directory), "--git-note", "--git-tag", "scores"]) == 0
    said = capsys.readouterr().out
    digest = Store(directory).ledger()[-1].line_id
    assert digest in said and "git push origin refs/notes/levelfield" in said
    assert digest in git("notes", "--ref=levelfield", "show")
    assert digest in git("tag", "-l", "-n1", "scores")
    assert run_app(["anchor", str(directory), "--git-tag", "scores"]) == 2, "a tag is never moved"
    assert "already exists" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["nowhere.json", "0123", "letter.txt"])
def test_what_is_no_anchor_is_one_line(
    directory: Path, given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    path = str(tmp_path / given) if given == "letter.txt" else given
    assert run_app(["verify", str(directory), "--anchor", path]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_an_anchor_is_not_overwritten(directory: Path, tmp_path: Path) -> None:
    lf.anchor(directory, file=tmp_path / "anchor.json")
    with pytest.raises(UsageError, match="is not overwritten"):
        lf.anchor(directory, file=tmp_path / "anchor.json")


def test_an_experiment_without_an_opening_has_no_anchor(write_experiment: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match="has no ledger yet"):
        lf.anchor(write_experiment())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"seed": 3}, "seed is 0, planned was 3"),
        ({"search": {"trials": 2, "sampler": "random", "repeats": 3}}, "search.repeats is 1, planned was 3"),
        ({"search": {"trials": 9, "sampler": "random"}}, "search.trials is 2, planned was 9"),
        ({"confirm": {"reruns": 5, "gallery": 0}}, "confirm.reruns is 2, planned was 5"),
        ({"methods": ["triplet", "contrastive", "margin"]}, "method margin is absent, planned was present"),
        ({"methods": ["triplet"]}, "method contrastive is present, planned was absent"),
        ({"metrics": ["map_at_r"]}, "metrics is"),
        (
            {"methods": ["triplet", {"name": "contrastive", "set": {"neg_margin": 0.7}}]},
            "method contrastive.set.neg_margin is absent, planned was 0.7",
        ),
    ],
    ids=["seed", "searches", "trials", "reruns", "method left out", "method added", "metrics", "fixed value"],
)
def test_a_plan_finds_what_departs_from_it(
    values: dict[str, Any], directory: Path, change: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    lf.preregister(values | change, tmp_path / "plan.json")
    found = lf.verify(directory, plan=tmp_path / "plan.json")
    assert any(f"without a reason on record: {problem}" in line for line in found), found
    assert lf.verify(directory) == []


def test_a_plan_finds_a_method_that_was_erased(
    values: dict[str, Any], directory: Path, tmp_path: Path
) -> None:
    lf.preregister(values, tmp_path / "plan.json")
    erase_a_method(directory)
    write_report(directory)
    found = lf.verify(directory, plan=tmp_path / "plan.json")
    assert any("method contrastive is absent, planned was present" in line for line in found)


def test_a_plan_finds_a_rerun_that_was_dropped_everywhere(
    values: dict[str, Any], directory: Path, tmp_path: Path
) -> None:
    lf.preregister(values, tmp_path / "plan.json")
    drop_the_last_rerun_everywhere(directory)
    write_report(directory)
    found = lf.verify(directory, plan=tmp_path / "plan.json")
    assert "departs from the plan, without a reason on record: confirm.reruns is 1, planned was 2" in found


def test_a_plan_finds_another_search_space(values: dict[str, Any], directory: Path, tmp_path: Path) -> None:
    lf.preregister(values, tmp_path / "plan.json")
    widen_a_search_space(directory)
    found = lf.verify(directory, plan=tmp_path / "plan.json")
    assert any("the searches of triplet are not the planned ones" in line for line in found)


def test_a_plan_that_was_written_later_is_found(
    values: dict[str, Any], directory: Path, tmp_path: Path
) -> None:
    plan = lf.preregister(values, tmp_path / "plan.json")
    assert plan.created >= Store(directory).ledger()[-1].time
    late = plan.model_copy(update={"created": "2999-01-01T00:00:00+00:00"}).sign()
    (tmp_path / "plan.json").write_text(late.model_dump_json())
    found = lf.verify(directory, plan=tmp_path / "plan.json")
    assert found == ["the plan was written after the test set was opened"]


def test_an_edited_plan_is_refused(values: dict[str, Any], directory: Path, tmp_path: Path) -> None:
    lf.preregister(values, tmp_path / "plan.json")
    edit(tmp_path / "plan.json", lambda plan: plan.update(seed=1))
    with pytest.raises(UsageError, match="was changed after it was written"):
        lf.verify(directory, plan=tmp_path / "plan.json")
