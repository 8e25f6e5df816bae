"""``levelfield data prepare`` with text and JSON output."""

from __future__ import annotations

import json

import pytest
import typer
from tests.oracles.images import dataset
from typer.testing import CliRunner

from levelfield import data
from levelfield.cli.data_prepare import prepare
from levelfield.core.errors import RunError, UsageError


@pytest.fixture
def call(monkeypatch, tmp_path):
    app = typer.Typer()
    app.command()(prepare)
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str, **options):
        monkeypatch.setattr(data, "load", lambda name, **given: dataset(**options | given))
        return CliRunner().invoke(app, ["images", "--resize", "8", *arguments])

    return run


def test_it_prints_the_count_and_the_path(call, tmp_path):
    result = call("--verify")
    assert result.exit_code == 0
    assert "12 images (0.00 GB) are prepared in" in result.stdout
    assert str(tmp_path / "cache") in result.stdout.replace("\n", "")


def test_a_script_gets_json_and_nothing_else(call, tmp_path):
    result = call("--json", "--unreadable", "skip", broken=(5,))
    facts = json.loads(result.stdout)
    assert facts["images"] == 11
    assert facts["unreadable"] == [{"row": 5, "reason": "images/5.jpg is truncated"}]
    assert facts["path"].startswith(str(tmp_path / "cache"))


def test_options_of_the_dataset_are_passed_on(call):
    assert json.loads(call("--json", "--set", "count=5").stdout)["images"] == 5


def test_unreadable_images_are_all_listed_and_refused(call):
    result = call("--quiet", broken=(1, 3, 5, 7, 9))
    assert isinstance(result.exception, RunError)
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == [
        f"row {i}" for i in (1, 3, 5, 7, 9)
    ]


def test_damage_is_found_on_request(call, tmp_path):
    call()
    (pixels,) = tmp_path.rglob("images.bin")
    raw = bytearray(pixels.read_bytes())
    raw[0] ^= 1
    pixels.write_bytes(raw)
    assert call().exit_code == 0
    assert "checksums (first: number 0)" in str(call("--verify").exception)


def test_a_wrong_resize_is_refused(call):
    assert isinstance(call("--resize", "big").exception, UsageError)
    assert call("--resize", "none").exit_code == 0
