"""The pages of the reality check are generated from records."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.analysis import analyze
from levelfield.api import archive
from tests.helpers.made_experiments import written

pytestmark = pytest.mark.slow

TOOL = Path(__file__).parent.parent / "results" / "reality_check" / "page.py"
SHORT = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
METHODS = ["contrastive", "triplet", "multi_similarity", "circle", "normalized_softmax"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small arenas: two datasets with a plan and two searches, a variant, and one that trains a layer."""
    from tests.conftest import TOY_PLUGIN, tiny_values

    directory = tmp_path_factory.mktemp("reality")
    arenas: dict[str, dict[str, Any]] = {
        "cub200-frozen": {"seed": 0},
        "glyphs-frozen": {"seed": 1},
        "cub200-frozen-wide": {"seed": 2, "trunk": {"width": 6}, "methods": METHODS[:3]},
        "cub200-tail": {"seed": 3, "trunk": {"mode": "tail", "from": "3"}, "methods": METHODS[:3]},
    }
    for name, changes in arenas.items():
        searches = 1 if "methods" in changes else 2
        values = tiny_values() | {
            "name": name,
            "methods": changes.get("methods", METHODS),
            "training": SHORT,
            "search": {"trials": 1, "repeats": searches, "sampler": "random", "first": "defaults"},
            "confirm": {"reruns": 2, "gallery": 0},
            "seed": changes["seed"],
        }
        values["trunk"] = dict(values["trunk"]) | {"mode": "frozen"} | changes.get("trunk", {})
        file, depart = directory / f"{name}-plan.json", None
        if name == "glyphs-frozen":
            lf.preregister(values | {"seed": 9}, file)
            depart = "the first seed was lost"
        result = lf.run(values, directory / "runs" / name, plan=file if depart else None, depart=depart)
        archive(result.path, directory / "results" / name)
    studies = directory / "results" / "studies"
    studies.mkdir()
    steps = {"date": "2026-11-18", "machine": "made up", "seconds": {m: [0.001, 0.002] for m in METHODS}}
    (studies / "step-cost.json").write_text(json.dumps(steps))
    for name, of in {
        "cub200": "glyphs",
        "glyphs": "glyphs",
    }.items():  # the second is the present one: not shown
        keep = [
            sys.executable,
            str(TOOL.with_name("keep_earlier.py")),
            str(directory / "results" / f"{of}-frozen"),
        ]
        subprocess.run([*keep, str(studies / f"{name}-frozen-earlier-small.json")], check=True)
    structure = [
        sys.executable,
        str(TOOL.with_name("structure.py")),
        str(directory / "runs" / "cub200-frozen"),
    ]
    file = studies / "structure-cub200-frozen.json"
    subprocess.run([*structure, str(file), "--plugin", str(TOY_PLUGIN)], check=True, capture_output=True)
    return directory / "results"


def pages(results: Path, out: Path) -> tuple[str, str, str]:
    """Return the page of the reality check, the page on losses, and the README."""
    readme = out / "README.md"
    readme.write_text("\n".join(["before", *MARKS[:1], "STALE", *MARKS[1:], "after", ""]))
    command = [
        sys.executable,
        str(TOOL),
        "--results",
        str(results),
        "--docs",
        str(out),
        "--readme",
        str(readme),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [(out / name).read_text() for name in ("reality-check.md", "which-loss.md", "README.md")]
    odd = [
        line
        for text in found
        for line in text.splitlines()
        if re.search(r"undefined|none,|\bnan\b", line, re.I)
    ]
    assert not odd, odd
    return found[0], found[1], found[2]


MARKS = ["<!-- reality check: written by `make reality-check` -->", "<!-- end of reality check -->"]


def test_the_pages_are_made_of_records(results: Path, tmp_path: Path) -> None:
    page, choice, readme = pages(results, tmp_path)
    first = page.split("\n\n")[1]
    assert len(first.split()) <= 80 and "5 published methods" in first and "on 2 datasets" in first
    assert readme == "\n".join(["before", MARKS[0], first, MARKS[1], "after", ""])
    assert page.count("**") % 2 == 0
    overall = page.partition("## All datasets")[2].partition("\n## ")[0]
    assert all(f"| {m} |" in overall.replace("**", "") for m in METHODS)
    assert "In general" in overall and "1.0x" in overall
    for title in (
        "CUB-200-2011, frozen network",
        "Glyphs, frozen network",
        "CUB-200-2011, upper layers trained",
    ):
        assert f"\n## {title}\n" in page
    assert page.count("**Weak points of this arena.** ") == 4  # one trial per search in each
    plans = page.partition("## Plans and departures")[2].partition("\n## ")[0]
    assert "| Glyphs, frozen network | `" in plans and "(reason: the first seed was lost)" in plans
    assert plans.count("| none | - | - |") == 3
    order = page.partition("## What does the order depend on?")[2].partition("\n## ")[0]
    for factor in ("nothing but luck", "the dataset", "the pretrained network", "the trained layers"):
        assert f"| {factor} | " in order, order
    assert "An earlier measurement of CUB-200-2011, frozen network (2 x 1, 2" in page
    assert "An earlier measurement of Glyphs" not in page  # it is the present measurement
    shape = page.partition("## Does the shape of the training embeddings predict the score?")[2]
    assert all(f"\n| {metric} | " in shape for metric in ("pi_intra", "pi_inter", "pi_ratio", "rho"))
    images = {
        line.partition("](images/")[2].partition(")")[0] for line in page.splitlines() if "](images/" in line
    }
    assert images == {file.name for file in (tmp_path / "images").iterdir()} and len(images) > 8
    assert "\n| one default" in choice or "No loss stands out" in choice


def test_one_dataset_is_enough(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results / "cub200-frozen", tmp_path / "results" / "cub200-frozen")
    page, choice, _ = pages(tmp_path / "results", tmp_path)
    assert "on 1 dataset." in page and "in general" not in page.partition("## The protocol")[0].lower()
    assert "What does a method cost" not in page and "frozen" in choice


def test_a_sound_arena_has_no_weak_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOL.parent))
    from arenas import Arena

    def arena(**budget: Any) -> Arena:
        made = written(tmp, means={"contrastive": 0.5, "triplet": 0.4, "untrained": 0.1}, **budget)
        return Arena(analyze(made))

    with tempfile.TemporaryDirectory() as directory:
        tmp = Path(directory) / "cub200-frozen"
        assert arena(trials=16, repeats=10, reruns=2).shortfalls == []
        tmp = Path(directory) / "cars196-frozen"
        (found,) = arena(trials=8, repeats=3, reruns=2).shortfalls
        assert "3 x 8; 10 x 16 are wanted" in found


def test_a_folder_without_arenas_is_said(tmp_path: Path) -> None:
    command = [sys.executable, str(TOOL), "--results", str(tmp_path), "--docs", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
