"""``lf.results``: the records as data frames, complete, tidy, and without torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import tiny_values

import levelfield as lf
from levelfield.analysis import read_comparison
from levelfield.core.errors import UsageError

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = {"methods": ["contrastive", "triplet"]}
    experiment = lf.Experiment.build(**tiny_values() | changes)
    return lf.run(experiment, tmp_path_factory.mktemp("frames") / "out").path


@pytest.mark.slow
def test_results_have_the_scores_of_every_rerun(root: Path) -> None:
    frame = lf.results(root).results
    # (untrained + 2 methods) x 2 reruns x 2 settings x 3 metrics
    assert len(frame) == 36 and not frame.isna().any().any()
    one = frame.query("method == 'triplet' and setting == 'concatenated' and metric == 'map_at_r'")
    result = next(found for found in read_comparison(root).results if found.method == "triplet")
    assert list(one["score"]) == result.scores["concatenated"]["map_at_r"]
    assert one["score"].mean() == pytest.approx(result.seed_interval("concatenated", "map_at_r").mean)


def test_trials_have_their_hyperparameters(root: Path) -> None:
    frame = lf.results(root).trials
    assert len(frame) == 4 and set(frame["status"]) == {"complete"}
    assert frame.groupby("method")["selected"].sum().to_dict() == {"contrastive": 1, "triplet": 1}
    assert frame[["fold_0", "fold_1"]].mean(axis=1).tolist() == pytest.approx(frame["score"].tolist())
    triplets = frame[frame["method"] == "triplet"]
    trials = next(found for found in read_comparison(root).results if found.method == "triplet").trials
    assert list(triplets["margin"]) == [trial.hyperparameters["margin"] for trial in trials]


def test_runs_and_curves_agree(root: Path) -> None:
    found = lf.results(root)
    assert len(found.runs) == 16 and found.runs["run"].is_unique
    assert found.runs["trial"].notna().sum() == 8 and found.runs["rerun"].notna().sum() == 8
    assert found.runs["method"].notna().all()
    best = found.curves[found.curves["quantity"] == "map_at_r"].groupby("run")["value"].max()
    merged = found.runs.set_index("run")["validation.map_at_r"]
    assert best.sort_index().tolist() == merged.sort_index().tolist()


def test_every_query_has_a_row(root: Path) -> None:
    found = lf.results(root)
    frame = found.per_query()
    means = frame.groupby(["method", "rerun"])["score"].mean()
    wanted = found.results.query("setting == 'concatenated' and metric == 'map_at_r'")
    expected = wanted.set_index(["method", "rerun"])["score"]
    for key, value in means.items():
        assert value == pytest.approx(expected[key])
    assert frame.groupby("label").size().nunique() == 1  # the toy classes are equally large


def test_a_search_that_goes_on_shows_its_trials(root: Path, tmp_path: Path) -> None:
    """No selection is frozen yet, so there is no result; what was tried is on record."""
    copy = Path(shutil.copytree(root, tmp_path / "half"))
    index = json.loads((copy / "experiment.json").read_text())
    (copy / "experiment.json").write_text(json.dumps(index | {"selections": {}}))
    found = lf.results(copy)
    assert len(found.results) == 0 and len(found.per_query()) == 0
    assert len(found.trials) == 4 and not found.trials["selected"].any()


def test_wrong_names_are_told(root: Path) -> None:
    with pytest.raises(UsageError, match="was not tested"):
        lf.results(root).per_query("mapr")
    with pytest.raises(UsageError, match="holds no levelfield experiment"):
        lf.results(root / "runs")


@pytest.mark.slow
def test_torch_is_not_imported(root: Path) -> None:
    code = (
        "import sys, levelfield as lf\n"
        f"found = lf.results({str(root)!r})\n"
        "len(found.results), len(found.trials), len(found.runs), len(found.curves), len(found.per_query())\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
