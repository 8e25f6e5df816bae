"""The page of the reality check is written from records, and says what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import levelfield as lf
from levelfield.compare import archive

TOOL = Path(__file__).parent.parent / "tools" / "reality_check" / "page.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arenas of the smallest kind: frozen random trunks, two searches of each method."""
    from conftest import tiny_values

    folder = tmp_path_factory.mktemp("reality")
    for name, seed in (("one-frozen", 0), ("two-frozen", 1)):
        values = tiny_values() | {
            "methods": ["contrastive", "triplet", "multi_similarity"],
            "training": {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None},
            "search": {"trials": 1, "repeats": 2, "sampler": "random"},
            "confirm": {"reruns": 2},
            "seed": seed,
        }
        values["trunk"] = dict(values["trunk"]) | {"mode": "frozen"}
        archive(lf.run(lf.Experiment.build(**values), folder / "runs" / name), folder / "results" / name)
    return folder / "results"


def test_the_page_is_made_of_records(results: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    marks = ["<!-- reality check: written by `make reality-check` -->", "<!-- end of reality check -->"]
    readme.write_text("\n".join(["before", marks[0], "STALE", marks[1], "after", ""]))
    command = [sys.executable, str(TOOL), "--results", str(results), "--docs", str(tmp_path)]
    command += ["--readme", str(readme)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "reality-check.md").read_text()
    assert "3 ways to train an embedding" in page and " of 3 pairs differ" in page
    assert page.count("| contrastive |") + page.count("| **contrastive** |") == 2
    for picture in ("frozen", "frozen-verdicts", "across"):
        assert (tmp_path / "images" / f"reality-check-{picture}.png").stat().st_size > 5000
    assert "undefined" not in page.lower()
    before, _, rest = readme.read_text().partition(marks[0] + "\n")
    quoted, _, after = rest.partition(marks[1] + "\n")
    assert (before, after) == ("before\n", "after\n") and "STALE" not in quoted
    assert quoted.strip() and quoted.strip() in page


def test_a_folder_without_arenas_is_said(tmp_path: Path) -> None:
    command = [sys.executable, str(TOOL), "--results", str(tmp_path), "--docs", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
