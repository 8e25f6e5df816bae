"""``levelfield archive``: a copy small enough to publish gives the same verdicts, and the same findings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import levelfield as lf
from levelfield.cli._app import run_app
from levelfield.compare import archive, weigh
from levelfield.records import class_means
from levelfield.reports import verify_folder, write_report


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from conftest import tiny_values

    tiny = tiny_values()
    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    values = tiny | {"methods": ["triplet", "contrastive"]}
    return lf.run(lf.Experiment.build(**values), tmp_path_factory.mktemp("honest") / "runs")


@pytest.fixture(scope="module")
def copy(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("archive") / "copy"
    archive(finished, out)
    return out


def test_the_copy_gives_the_same_verdicts(finished: Path, copy: Path) -> None:
    ours, theirs = weigh(copy), weigh(finished)
    assert ours.judgements.keys() == theirs.judgements.keys()
    for key, judgement in ours.judgements.items():
        for one, other in zip(judgement.pairs, theirs.judgements[key].pairs, strict=True):
            assert (one.first, one.second) == (other.first, other.second)
            np.testing.assert_allclose(one.difference, other.difference, rtol=1e-5, atol=1e-9)
            np.testing.assert_allclose(one.p_value, other.p_value, rtol=1e-3, atol=1e-6)
        assert judgement.leaders == theirs.judgements[key].leaders
        assert judgement.classes == theirs.judgements[key].classes


def test_the_copy_fits_together_and_can_be_reported(copy: Path) -> None:
    assert verify_folder(copy) == []
    write_report(copy)
    assert verify_folder(copy) == []


def test_the_copy_holds_no_weights_logs_or_pictures(finished: Path, copy: Path) -> None:
    names = {file.name for file in copy.rglob("*")}
    assert not names & {"best.safetensors", "epochs.jsonl", "pictures.safetensors", "gallery.json", ".lock"}
    assert {"ledger.jsonl", "spec.json", "provenance.json"} <= names


def test_a_copy_of_the_copy_is_the_copy(copy: Path, tmp_path: Path) -> None:
    archive(copy, tmp_path / "again")
    for file in (copy / "confirmations").rglob("*.safetensors"):
        assert (tmp_path / "again" / file.relative_to(copy)).read_bytes() == file.read_bytes()


def test_an_edited_class_mean_is_found(copy: Path, tmp_path: Path) -> None:
    archive(copy, tmp_path / "again")
    file = next((tmp_path / "again" / "confirmations").rglob("*.safetensors"))
    arrays = load_file(file)
    arrays["concatenated.map_at_r"] = arrays["concatenated.map_at_r"] + 0.01
    save_file(arrays, file)
    findings = verify_folder(tmp_path / "again")
    assert any("is not the mean of its queries" in finding for finding in findings)
    assert any("was changed after it was sealed" in finding for finding in findings)


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
    other = shutil.copytree(finished, tmp_path / "other")
    target = {"itself": finished, "full": tmp_path, "another experiment": other}[out]
    before = json.loads((finished / "experiment.json").read_text())
    assert run_app(["archive", str(finished), "-o", str(target)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert json.loads((finished / "experiment.json").read_text()) == before
    assert (tmp_path / "letter.txt").exists() and (other / "experiment.json").exists()
