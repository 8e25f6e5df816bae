"""The page of the reality check is generated from records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import levelfield as lf
from levelfield.api import archive

pytestmark = pytest.mark.slow

TOOL = Path(__file__).parent.parent / "results" / "reality_check" / "page.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small arenas: two with frozen trunks and two searches, one that trains a layer."""
    from tests.conftest import TOY_PLUGIN, tiny_values

    directory = tmp_path_factory.mktemp("reality")
    methods, frozen = ["contrastive", "triplet", "multi_similarity", "circle"], {"mode": "frozen"}
    arenas = {
        "one-frozen": (0, methods, frozen, 2),
        "two-frozen": (1, methods, frozen, 2),
        "one-tail": (2, methods[:3], {"mode": "tail", "from": "3"}, 1),
    }
    for name, (seed, chosen, trunk, repeats) in arenas.items():
        values = tiny_values() | {
            "methods": chosen,
            "training": {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None},
            "search": {"trials": 1, "repeats": repeats, "sampler": "random"},
            "confirm": {"reruns": 2},
            "seed": seed,
        }
        values["trunk"] = dict(values["trunk"]) | trunk
        result = lf.run(values, directory / "runs" / name)
        archive(result.path, directory / "results" / name)
    (directory / "results" / "studies").mkdir()
    earlier = directory / "results" / "studies" / "two-frozen-earlier.json"
    keep = [sys.executable, str(TOOL.with_name("keep_earlier.py")), str(directory / "results" / "one-frozen")]
    subprocess.run([*keep, str(earlier)], check=True)
    structure = [sys.executable, str(TOOL.with_name("structure.py")), str(directory / "runs" / "one-frozen")]
    file = directory / "results" / "studies" / "structure-one-frozen.json"
    subprocess.run([*structure, str(file), "--plugin", str(TOY_PLUGIN)], check=True, capture_output=True)
    return directory / "results"


def test_the_page_is_made_of_records(results: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    marks = ["<!-- reality check: written by `make reality-check` -->", "<!-- end of reality check -->"]
    readme.write_text("\n".join(["before", marks[0], "STALE", marks[1], "after", ""]))
    command = [sys.executable, str(TOOL), "--results", str(results), "--docs", str(tmp_path)]
    command += ["--readme", str(readme)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "reality-check.md").read_text()
    assert "4 ways to train an embedding" in page and " of 6 pairs were told apart on both datasets" in page
    main_tables = page.partition("## Which pairs differ")[0]
    assert main_tables.count("| contrastive |") + main_tables.count("| **contrastive** |") == 3
    assert page.count("**") % 2 == 0
    assert "was measured twice. The first time heads learned at 0.003 for at most 2 steps" in page
    assert "With the network's upper layers trained too (3 of the methods, one search each)" in page
    shape = page.partition("## Does the shape of the training embeddings predict the score?")[2]
    assert all(f"\n| {metric} | " in shape for metric in ("pi_intra", "pi_inter", "pi_ratio", "rho"))
    for image in ("frozen", "frozen-verdicts", "across", "tail", "tail-verdicts"):
        assert (tmp_path / "images" / f"reality-check-{image}.png").stat().st_size > 5000
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
