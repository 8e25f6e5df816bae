from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from levelfield.cli._app import run_app
from levelfield.cli.ls import HOMES


@pytest.mark.parametrize("kind", HOMES)
def test_ls_lists_every_kind(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["ls", kind]) == 0
    assert run_app(["ls", kind, "--json"]) == 0
    out = capsys.readouterr().out
    listed = json.loads(out[out.index("[\n") :])
    assert listed and all(item["summary"] for item in listed)


def test_ls_shows_paper_and_ranges(capsys: pytest.CaptureFixture[str]) -> None:
    run_app(["ls", "losses"])
    out = capsys.readouterr().out
    assert "triplet" in out and "margin: " in out


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["--version"]) == 0
    assert run_app(["--help"]) == 0
    out = capsys.readouterr().out
    assert "levelfield 0.1.0" in out and "demo" in out


def test_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["presets", "list"]) == 0
    assert run_app(["presets", "show", "demo"]) == 0
    assert "glyphs" in capsys.readouterr().out


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
