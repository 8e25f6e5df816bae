"""``levelfield archive``: an archive is read in place and gives what the experiment directory gives."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save
from tests.helpers.archives import edit_lines, fit_manifest

import levelfield as lf
from levelfield.analysis import analyze, find_unchecked, verify
from levelfield.api import archive, compare, export
from levelfield.cli._app import run_app
from levelfield.core.errors import RunError, UsageError
from levelfield.records import Store, class_means
from levelfield.reports import verify_experiment, write_report
from levelfield.reports.web._active_runs import estimate_progress
from levelfield.reports.web._experiment_states import read_experiment_state
from levelfield.reports.web._html import find_trial, trial_page
from levelfield.reports.web._site import write_site

SCORES = "class-scores.safetensors"


@pytest.fixture(scope="module")
def finished(_finished_tiny: Path) -> Path:
    """Finished experiment directory; never change it."""
    return _finished_tiny


@pytest.fixture(scope="module")
def made(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of the experiment; never change it."""
    out = tmp_path_factory.mktemp("archive") / "tiny"
    archive(finished, out)
    return out


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    """Archive of the test's own."""
    return Path(shutil.copytree(made, tmp_path / "own"))


def content(root: Path) -> dict[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


# What it has


@pytest.mark.slow
def test_there_is_one_file_per_kind_of_record(made: Path) -> None:
    kinds = {"searches", "trials", "selections", "reruns", "specs", "results", "provenance"}
    copied = {"schema.json", "experiment.json", "revisions.jsonl", "ledger.jsonl", "ledger.head.json"}
    lines = {f"{kind}.jsonl" for kind in kinds}
    found = content(made)
    assert {name for name in found if "/" not in name} - copied - lines == {"archive.json", SCORES}
    assert len(found) <= 20
    assert json.loads(found["archive.json"])["missing_runs"] == 0


def test_every_trial_is_there_with_its_runs(finished: Path, made: Path) -> None:
    ours, theirs = Store(made), Store(finished)
    for searches in theirs.experiment_record().searches.values():
        for search in searches:
            assert ours.search(search) == theirs.search(search)
            assert ours.trials(search) == theirs.trials(search) and len(ours.trials(search)) == 2
    assert [run.path.name for run in ours.runs()] == [run.path.name for run in theirs.runs()]
    for one, other in zip(ours.runs(), theirs.runs(), strict=True):
        assert (one.spec(), one.result(), one.provenance()) == (
            other.spec(),
            other.result(),
            other.provenance(),
        )
        assert one.spec().run_id == one.path.name


def test_selections_scores_and_seals_are_those_of_the_directory(finished: Path, made: Path) -> None:
    ours, theirs = Store(made), Store(finished)
    assert ours.selections() == theirs.selections() and ours.confirmed() == theirs.confirmed()
    assert ours.ledger() == theirs.ledger() and ours.ledger_head() == theirs.ledger_head()
    seals = [seal for line in ours.ledger() for seal in line.sealed.items()]
    sealed = {name: value for name, value in seals if "/rerun-" in name}
    assert len(sealed) > 4 and all(ours.seal(name) == value for name, value in sealed.items())
    for selection, numbers in ours.confirmed().items():
        assert ours.reruns(selection, len(numbers)) == theirs.reruns(selection, len(numbers))


@pytest.mark.slow
def test_the_same_records_give_the_same_bytes(
    finished: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(made, tmp_path / "again")
    assert content(tmp_path / "again") == content(made), "an archive of the archive"
    monkeypatch.setattr("levelfield.records._archive_writer.COMPRESS_ABOVE", 0)
    moved = Path(shutil.copytree(finished, tmp_path / "moved", copy_function=shutil.copyfile))
    for number, file in enumerate(sorted(moved.rglob("*"))):
        os.utime(file, (1000 + number, 1000 + number))
    archive(moved, tmp_path / "one")
    archive(finished, tmp_path / "other")
    assert (tmp_path / "one" / "trials.jsonl.gz").exists()
    assert content(tmp_path / "one") == content(tmp_path / "other")
    archive(tmp_path / "one", tmp_path / "third")
    assert content(tmp_path / "third") == content(tmp_path / "one")
    assert verify(tmp_path / "third") == []


# Its readers


@pytest.mark.slow
def test_it_gives_the_same_verdicts(finished: Path, made: Path) -> None:
    ours, theirs = analyze(made), analyze(finished)
    assert ours.judgments.keys() == theirs.judgments.keys()
    for key, judgment in ours.judgments.items():
        for one, other in zip(judgment.pairs, theirs.judgments[key].pairs, strict=True):
            assert (one.first, one.second) == (other.first, other.second)
            np.testing.assert_allclose(one.difference, other.difference, rtol=1e-5, atol=1e-9)
            np.testing.assert_allclose(one.p_value, other.p_value, rtol=0.05, atol=1e-6)  # of random draws
        assert judgment.leaders == theirs.judgments[key].leaders
        assert judgment.classes == theirs.judgments[key].classes


@pytest.mark.slow
def test_it_fits_together_and_can_be_reported(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_experiment(own) == [] and find_unchecked(own) == []
    write_report(own)
    assert run_app(["verify", str(own)]) == 0
    assert "not checked" not in capsys.readouterr().out


@pytest.mark.slow
def test_frames_and_comparisons_are_those_of_the_directory(finished: Path, made: Path) -> None:
    ours, theirs = lf.results(made), lf.results(finished)
    for name in ("results", "trials", "runs"):
        assert getattr(ours, name).equals(getattr(theirs, name))
    assert len(ours.per_query()) == len(theirs.per_query())
    compared = compare(made, finished)
    assert isinstance(compared, lf.ExperimentsResult)
    one, other = compared.experiments
    assert one.verdict == other.verdict


@pytest.mark.slow
def test_pages_show_it_like_the_directory(finished: Path, made: Path, tmp_path: Path) -> None:
    ours, theirs = read_experiment_state(made), read_experiment_state(finished)
    assert (ours.state, ours.methods, ours.progress) == ("finished", theirs.methods, theirs.progress)
    progress = estimate_progress(ours, folds=2)
    assert progress.done == progress.total == estimate_progress(theirs, folds=2).done
    assert ours.record is not None
    search = ours.record.searches["triplet"][0]
    found = find_trial(ours, search, 1)
    assert found is not None
    page = trial_page(ours, *found[:1], search, found[1], False)
    assert all(run in page for run in found[1].runs)
    assert "triplet" in write_site(made.parent, tmp_path / "site").read_text()


def test_it_is_only_read(own: Path, tmp_path: Path, tiny: dict[str, Any]) -> None:
    before = content(own)
    with pytest.raises(UsageError, match="is an archive, which is only read; choose another --out"):
        lf.run(lf.Experiment.build(**tiny), own)
    with pytest.raises(UsageError, match="is an archive, which has no weights"):
        export(own, tmp_path / "model", method="triplet", plugins=tuple(map(Path, tiny["plugins"])))
    assert content(own) == before


# Edits


def losing_trial(root: Path) -> str:
    store = Store(root)
    (name,) = store.experiment_record().selections["triplet"]
    chosen = store.selection(name)
    return f"searches/{chosen.search}/trial-{1 - (chosen.trial or 0):04d}.json"


def edit_trial(root: Path, name: str, **values: Any) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        (line,) = [line for line in lines if line["file"] == name]
        line["record"].update(values)

    edit_lines(root, "trials", change)


def test_an_edited_file_is_found(own: Path) -> None:
    file = own / "trials.jsonl"
    file.write_text(file.read_text().replace('"reason":""', '"reason":"bad luck"', 1))
    assert "trials.jsonl was changed after the archive was written" in verify(own)
    file.unlink()
    with pytest.raises(RunError, match=r"trials.jsonl is missing; get a new copy"):
        verify(own)


def test_changed_scores_of_a_trial_that_lost_are_found(own: Path) -> None:
    edit_trial(own, losing_trial(own), fold_scores=[0.0001, 0.0003], score=0.0002)
    assert any(
        problem.startswith("trial") and "of triplet has another score than its run" in problem
        for problem in verify(own)
    )


@pytest.mark.slow
def test_changed_hyperparameters_of_a_trial_that_lost_are_found_without_its_runs(
    finished: Path, tmp_path: Path
) -> None:
    directory = Path(shutil.copytree(finished, tmp_path / "runs"))
    store = Store(directory)
    trials = [t for names in store.experiment_record().searches.values() for t in store.trials(names[0])]
    for trial in trials:
        for run in trial.runs:
            shutil.rmtree(store.run(run).path)
    manifest = archive(directory, tmp_path / "own")
    assert manifest.missing_runs == sum(len(trial.runs) for trial in trials)
    assert verify_experiment(tmp_path / "own") == []
    (unchecked,) = find_unchecked(tmp_path / "own")
    assert unchecked.startswith(f"{len(trials)} of {len(trials)} trials have no runs on record")
    name = losing_trial(tmp_path / "own")
    edit_trial(tmp_path / "own", name, hyperparameters={"margin": 0.25})
    wrong = f"trial {int(name[-9:-5]) + 1} of triplet"
    assert any(line.startswith(wrong) for line in verify(tmp_path / "own"))


def test_an_edited_class_mean_is_found(own: Path) -> None:
    arrays = load_file(own / SCORES)
    key = next(key for key in arrays if key.endswith("concatenated.map_at_r"))
    arrays[key] = arrays[key] + 0.01
    (own / SCORES).write_bytes(save(arrays))
    fit_manifest(own, SCORES, save(arrays), len(arrays))
    problems = verify(own)
    assert any("is not the mean of its queries" in problem for problem in problems)
    assert any("was changed after it was sealed" in problem for problem in problems)


def test_queries_without_a_score_are_left_out() -> None:
    arrays = class_means(
        {"classes": np.array([3, 1, 3, 2]), "separated.x": np.array([0.5, 1.0, 0.25, np.nan])}
    )
    assert arrays["classes"].tolist() == [1, 3]
    assert arrays["queries_per_class"].tolist() == [1, 2]
    assert arrays["separated.x"].tolist() == [1.0, 0.375]


@pytest.mark.parametrize("out", ["itself", "full", "another experiment"])
def test_nothing_else_is_overwritten(
    out: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    other = Path(shutil.copytree(finished, tmp_path / "other"))
    target = {"itself": finished, "full": tmp_path, "another experiment": other}[out]
    before = json.loads((finished / "experiment.json").read_text())
    assert run_app(["archive", str(finished), "-o", str(target)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert json.loads((finished / "experiment.json").read_text()) == before
    assert (tmp_path / "letter.txt").exists() and (other / "experiment.json").exists()
