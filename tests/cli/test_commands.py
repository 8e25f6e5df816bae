"""ls, presets, run and report on the command line."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from levelfield.cli._app import run_app
from levelfield.cli.ls import REGISTRIES


@pytest.mark.parametrize("kind", REGISTRIES)
def test_ls_lists_every_kind(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["ls", kind]) == 0
    assert run_app(["ls", kind, "--json"]) == 0
    out = capsys.readouterr().out
    listed = own(kind, json.loads(out[out.index("[\n") :]))
    assert listed and all(item["summary"] for item in listed)


def own(kind: str, listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without plug-ins that other tests registered in this process."""
    registry = import_module(REGISTRIES[kind]).registry
    return [item for item in listed if registry[item["name"]].source is None]


def test_ls_shows_paper_and_ranges(capsys: pytest.CaptureFixture[str]) -> None:
    run_app(["ls", "losses"])
    out = capsys.readouterr().out
    assert "triplet" in out and "margin: " in out


@pytest.mark.parametrize("kind", ["losses", "regularizers", "syntheses"])
def test_ls_shows_year_and_source_of_everything_that_can_be_compared(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_app(["ls", kind, "--json"])
    for item in own(kind, json.loads(capsys.readouterr().out)):
        assert item["paper"] and 1980 < item["year"] <= 2026, item["name"]


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["--version"]) == 0
    assert run_app(["--help"]) == 0
    out = capsys.readouterr().out
    assert "levelfield 0.2.0" in out and "demo" in out


def test_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["presets", "list"]) == 0
    assert run_app(["presets", "show", "demo"]) == 0
    assert "glyphs" in capsys.readouterr().out


@pytest.mark.slow
def test_run_prints_json_for_machines(
    tmp_path: Path, tiny: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny | {"methods": ["triplet"]}))
    assert run_app(["run", str(file), "--out", str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [result["method"] for result in found["results"]] == ["untrained", "triplet"]
    assert run_app(["report", str(tmp_path / "out")]) == 0
    assert "index.html" in capsys.readouterr().out


def test_ls_cuts_lists_where_a_trunk_can_be_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["ls", "cuts", "timm:resnet10t", "--size", "64"]) == 0
    assert "layer4" in capsys.readouterr().out
    assert run_app(["ls", "cuts", "timm:resnet10t", "--size", "64", "--json"]) == 0
    cuts = {cut["name"]: cut for cut in json.loads(capsys.readouterr().out)}
    assert cuts["layer4"]["shape"] == [256, 4, 4] and cuts["layer4"]["bytes"] == 256 * 4 * 4 * 2
    assert 0 < cuts["layer4"]["multiply_adds"] < cuts["layer4"]["parameters"] < 1
