"""A release could be cut: versions, notes, bounds and workflows agree."""

from __future__ import annotations

import json
import pydoc
import re
import shutil
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from tools import release

import levelfield
from levelfield.config._renamed import HTL, HYPERPARAMETERS, TRANSFORM_OPTIONS
from levelfield.core.deprecation import REMOVED_IN

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_this_version_can_be_released() -> None:
    assert release.problems(f"v{levelfield.__version__}") == []
    date, notes = release.sections()[levelfield.__version__]
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", date) and "upgrade" in notes.lower()


def test_the_notes_are_read_in_two_minutes() -> None:
    for version, (_, notes) in release.sections().items():
        assert len(notes.split()) < 600, f"{version}: details belong in the pages that the notes link"


def test_what_does_not_agree_is_named(tmp_path: Path) -> None:
    (tmp_path / "src" / "levelfield").mkdir(parents=True)
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "src/levelfield/__init__.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    assert release.problems(f"v{levelfield.__version__}", tmp_path) == []
    found = release.problems("v9.9.9", tmp_path)
    assert len(found) == 4 and all("9.9.9" in problem for problem in found)
    citation = tmp_path / "CITATION.cff"
    citation.write_text(re.sub(r'(date-released: ").*"', r'\g<1>2020-01-01"', citation.read_text()))
    (problem,) = release.problems(f"v{levelfield.__version__}", tmp_path)
    assert "2020-01-01" in problem


def test_a_tag_needs_notes_on_all_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tag = f"v{levelfield.__version__}"
    notes = re.sub(r"^## Unreleased\n.*?(?=^## )", "", (ROOT / "CHANGELOG.md").read_text(), flags=re.M | re.S)
    changelog = tmp_path / "CHANGELOG.md"
    monkeypatch.setattr(release, "problems", lambda tag: [])
    monkeypatch.setattr(release, "unreleased", partial(release.unreleased, tmp_path))
    changelog.write_text(notes)
    assert release.main(["check", tag]) == 0 and "can be released" in capsys.readouterr().out
    changelog.write_text(notes.replace("\n## ", "\n## Unreleased\n\n- A change.\n\n## ", 1))
    assert release.main(["check", tag]) == 1 and "move them to a version" in capsys.readouterr().out


def test_old_names_are_promised_for_a_later_version() -> None:
    assert [int(part) for part in REMOVED_IN.split(".")] > [int(n) for n in levelfield.__version__.split(".")]


def test_addresses_are_addresses() -> None:
    for name, address in PROJECT.get("urls", {}).items():
        assert address.startswith("https://"), name


def test_the_minimum_versions_are_those_of_pyproject() -> None:
    bounds = {}
    for line in PROJECT["dependencies"]:
        requirement = Requirement(line)
        (bound,) = requirement.specifier
        assert bound.operator == ">="
        bounds[requirement.name] = bound.version
    pinned = dict(
        line.split("==")
        for line in (ROOT / "tools" / "minimum.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    assert pinned.keys() == bounds.keys()
    for name, version in pinned.items():
        parts = version.split(".")
        wanted = bounds[name].split(".")
        assert parts == wanted + ["0"] * (len(parts) - len(wanted)), name


def test_the_tests_run_without_the_plugins_of_pytest() -> None:
    """The job "minimum" has pytest alone; a mark that only a plug-in declares would end its collection."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    declared = {line.partition(":")[0] for line in settings["markers"]}
    files = (ROOT / "tests").rglob("*.py")
    used = {mark for file in files for mark in re.findall(r"\bpytest\.mark\.(\w+)", file.read_text())}
    assert used <= declared | {"parametrize", "skipif", "usefixtures", "filterwarnings"}


def test_the_development_packages_exist_for_every_python_of_the_workflow() -> None:
    """The server pgserver has no wheels from Python 3.13 on, so pip could install none of the others."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    versions = workflow["jobs"]["full"]["strategy"]["matrix"]["python"]
    declared = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if " :: 3." in line]
    assert versions == declared
    (server,) = (line for line in PROJECT["optional-dependencies"]["dev"] if line.startswith("pgserver"))
    marker = Requirement(server).marker
    assert [
        version for version in versions if not marker or marker.evaluate({"python_version": version})
    ] == [
        "3.11",
        "3.12",
    ]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_is_bounded_and_runs_what_exists(file: Path) -> None:
    content: dict[Any, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert content["concurrency"]["group"] and content["permissions"]["contents"] == "read"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for name, job in content["jobs"].items():
        assert job["timeout-minutes"] <= 60, name
        for step in job["steps"]:
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False, name
            if "setup-python" in step.get("uses", ""):
                # A cache that another workflow wrote must not reach what is published.
                assert step["with"].get("cache") == (None if file.stem == "release" else "pip"), name
                for path in step["with"].get("cache-dependency-path", "").split():
                    assert (ROOT / path.removeprefix("base/")).exists(), path  # a second checkout
            command = step.get("run", "")
            for target in re.findall(r"^make ((?:[a-z-]+ ?)+)", command, re.MULTILINE):
                assert set(target.split()) <= set(targets), target
            for path in re.findall(r"(?:tools|tests|benchmarks)/[\w/.]+", command):
                assert (ROOT / path).exists(), path


RELEASED = sorted((ROOT / "benchmarks" / "speed" / "released").glob("*.json"))


@pytest.mark.parametrize("file", RELEASED, ids=lambda file: file.stem)
def test_the_speed_table_is_kept_for_comparison(file: Path) -> None:
    content = json.loads(file.read_text())
    assert content["size"] == file.stem
    assert {row["part"] for row in content["ratios"]} == {"job", "losses", "metrics", "search", "indexing"}
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    for row in content["ratios"]:
        assert f"| {row['part']} | {row['what']} | {row['peer']} | {row['cpu']:.2f} |" in page, "stale"


def rows_of(section: str) -> list[list[str]]:
    """Return the cells of the tables below a heading of docs/upgrade.md, in code quotes."""
    page = (ROOT / "docs" / "upgrade.md").read_text(encoding="utf-8")
    text = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [[" ".join(re.findall(r"`([^`]+)`", cell)) for cell in row[:2]] for row in rows]


def test_the_upgrade_guide_lists_every_renamed_key() -> None:
    listed = {old.removesuffix("NAME"): new.removesuffix("NAME") for old, new in rows_of("Experiment files")}
    for old, new in {**HYPERPARAMETERS, **HTL, **TRANSFORM_OPTIONS}.items():
        assert listed[old] == new


def test_the_upgrade_guide_lists_modules_that_moved_and_names_that_exist() -> None:
    rows = rows_of("Python")
    moved = {name for old, _ in rows for name in old.split()}
    assert {f"lf.{name}" for name in levelfield._MOVED} <= moved
    for _, new in rows:
        for name in re.findall(r"(?:lf|levelfield)\.([\w.]+)", new):
            assert pydoc.locate(f"levelfield.{name}") is not None, name
