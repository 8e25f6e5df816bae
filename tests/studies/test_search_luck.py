"""Search luck: one method searched several times and compared with itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.analysis import read_comparison
from levelfield.cli._app import run_app
from levelfield.core.errors import UsageError
from levelfield.reports import result_warnings
from levelfield.studies import search_luck

pytestmark = pytest.mark.slow


@pytest.fixture
def quick(tiny: dict[str, Any]) -> dict[str, Any]:
    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    return tiny


def test_every_search_is_judged_as_a_method_of_its_own(quick: dict[str, Any], tmp_path: Path) -> None:
    found = search_luck.run_study(lf.Experiment.build(**quick), tmp_path, method="triplet", repeats=3)
    assert (found.method, found.trials, found.reruns, len(found.means)) == ("triplet", 2, 2, 3)
    assert found.pairs == 3 and 0 <= found.different <= 3
    assert found.between > 0, "three searches have three choices"
    assert "3 searches of 2 trials" in (tmp_path / "search-luck.md").read_text()


def test_reports_of_the_same_data_say_how_large_the_luck_was(quick: dict[str, Any], tmp_path: Path) -> None:
    experiment = lf.Experiment.build(**quick)
    study = tmp_path / "study-search-luck"
    search_luck.run_study(experiment, study, method="triplet", repeats=2)
    beside = lf.run(experiment, tmp_path / "mine").path
    (known,) = [
        line for line in result_warnings(read_comparison(beside)) if "Luck in the search was measured" in line
    ]
    assert "2 searches of triplet, 2 trials each" in known
    elsewhere = lf.run(experiment, tmp_path / "other" / "mine").path
    assert not any(
        "Luck in the search was measured" in line for line in result_warnings(read_comparison(elsewhere))
    )
    (study / "search-luck.json").write_text("{")
    assert not any(
        "Luck in the search was measured" in line for line in result_warnings(read_comparison(beside))
    ), "a damaged file is ignored"


@pytest.mark.parametrize(
    ("options", "message"), [({"method": "tripel"}, "triplet"), ({"repeats": 1}, "2 or more")]
)
def test_bad_input(quick: dict[str, Any], tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        search_luck.run_study(lf.Experiment.build(**quick), tmp_path, **options)


def test_power_answers_from_the_records(
    quick: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = lf.run(lf.Experiment.build(**quick), tmp_path / "runs").path
    assert run_app(["power", str(root), "--difference", "50"]) == 0
    text = capsys.readouterr().out
    assert (
        "3 methods, 12 test classes, 2 reruns" in text
        and "To detect 50.00 points, per method, cheapest first" in text
    )
    assert "Luck in the search is not included" in text
    assert run_app(["power", str(root), "--difference", "0.001"]) == 0
    assert "No number of searches or reruns" in capsys.readouterr().out
