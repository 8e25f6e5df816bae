"""The public API: every name can be found, and results are objects."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import tiny_values

import levelfield as lf
from levelfield.api import ExperimentResult, ExperimentsResult
from levelfield.core.errors import UsageError

pytestmark = pytest.mark.slow  # experiments, end to end


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ExperimentResult:
    return lf.run(tiny_values(), tmp_path_factory.mktemp("api") / "tiny")


def test_every_public_name_works_by_itself() -> None:
    """A fresh process for all of them in reverse order: none relies on another being imported before."""
    code = (
        "import levelfield as lf\n"
        "assert set(lf.__all__) <= set(dir(lf))\n"
        "for name in reversed(lf.__all__): getattr(lf, name)\n"
        "from levelfield import errors, stats, testing, compare, run\n"
        "lf.retrieval.index, lf.retrieval.embedders, lf.retrieval.rerank\n"
        "lf.data.transforms, lf.data.splits, lf.data.store, lf.data.datasets\n"
        "lf.studies.toy_lines, lf.losses.regularizers\n"
        "assert callable(compare) and callable(run) and callable(lf.evaluate)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lossess'"):
        lf.lossess  # noqa: B018 - it is the access that fails


def test_run_returns_the_comparison(result: ExperimentResult) -> None:
    assert (result.path / "experiment.json").exists() and result.report.exists()
    assert Path(result) == result.path
    assert set(result.table["method"]) == {"contrastive", "triplet", "normalized_softmax", "untrained"}
    assert result.table["baseline"].sum() == 1
    means = result.table["concatenated.map_at_r"].dropna()
    assert means.is_monotonic_decreasing and means.between(0, 1).all()
    assert len(result.pairs) == 6 and set(result.pairs["verdict"]) <= {
        "better",
        "worse",
        "equivalent",
        "undecided",
    }
    assert set(result.best) <= {"contrastive", "triplet", "normalized_softmax"} and result.best
    # two epochs may train nothing: then no method is recommended
    assert result.best[0] in result.verdict or "nothing beat the untrained network" in result.verdict
    assert result.verdict.endswith(".")
    html = result._repr_html_()
    assert result.best[0] in html and "<table" in html


def test_lists_take_the_place_of_frames_without_pandas(
    result: ExperimentResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert isinstance(result.table, list) and result.table[0]["method"] in result.verdict
    assert isinstance(result.pairs, list)


def test_compare_reads_one_or_several(result: ExperimentResult) -> None:
    one = lf.compare(result, against="triplet")
    assert isinstance(one, ExperimentResult)
    assert all("triplet" in (pair["first"], pair["second"]) for _, pair in one.pairs.iterrows())
    both = lf.compare(result.path, str(result.path))
    assert isinstance(both, ExperimentsResult)
    assert len(both.pairs) == 2 * len(result.pairs) and len(both.table) >= 3
    assert both.verdict and "<table" in both._repr_html_()
    with pytest.raises(UsageError, match="at least one experiment directory"):
        lf.compare()
    with pytest.raises(UsageError, match="missing holds no levelfield experiment"):
        lf.compare(result.path, "missing")
    with pytest.raises(UsageError, match=r"write lf.compare\(\*directories\)"):
        lf.compare([result.path])  # type: ignore[arg-type]  # the mistake
    with pytest.raises(UsageError, match="or a mapping, not NoneType"):
        lf.plan(None)  # type: ignore[arg-type]  # the mistake


def test_plan_verify_and_power_read_the_records(result: ExperimentResult) -> None:
    assert lf.plan(tiny_values(), result.path).runs_todo == 0
    assert lf.verify(result) == []
    power = lf.power(result, difference=1.0)
    assert power.wanted == pytest.approx(0.01) and power.detectable > 0


def test_an_experiment_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("preset: demo\ndataset: {name: glyphs, samples_per_class: 4}\n")
    assert lf.plan(file, tmp_path / "out").runs_todo > 0


def test_completion_lists_the_losses() -> None:
    """Editors and Tab use ``dir``; it must not import torch's users one by one."""
    listed: Any = dir(lf.losses)
    assert {"ProxyAnchor", "MultiSimilarity", "Triplet", "create"} <= set(listed)
    assert lf.losses.ProxyAnchor(num_classes=3, embedding_size=4).num_classes == 3
    assert not builtins.set(dir(lf.miners)) & {"pkgutil", "annotations"}
