"""``levelfield data fetch`` and ``check`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.oracles import layouts
from typer.testing import CliRunner

from levelfield.cli.data import app
from levelfield.core.errors import UsageError


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    return result.exit_code, result.stdout


def test_check_prints_what_it_found_and_writes_the_sheet(tmp_path: Path) -> None:
    layouts.cub200(tmp_path)
    code, text = run("check", "cub200", "--root", tmp_path, "--sheet", tmp_path / "sheet.png", "--quiet")
    assert code == 0 and (tmp_path / "sheet.png").exists()
    assert "cub200: 12 images of 4 classes" in text
    assert "class_disjoint: 6 images for development, 6 for the test" in text
    assert "images per class: 3 to 3, median 3; 0 classes have one" in text


def test_check_fails_on_a_leak_and_names_the_files(tmp_path: Path) -> None:
    folder = layouts.cub200(tmp_path) / "images"
    first, last = sorted(folder.rglob("*.jpg"))[0], sorted(folder.rglob("*.jpg"))[-1]
    last.write_bytes(first.read_bytes())
    code, text = run("check", "cub200", "--root", tmp_path, "--quiet")
    assert code == 1
    assert "same image in development and test: 1" in text
    assert f"{first.relative_to(folder)} = {last.relative_to(folder)}" in text
    code, text = run("check", "cub200", "--root", tmp_path, "--json")
    assert code == 1 and json.loads(text)["exact_leaks"] == [[0, 11]]


def test_check_counts_classes_of_one_image_instead_of_failing(tmp_path: Path) -> None:
    layouts.cub200(tmp_path, images=1)
    assert "4 classes have one" in run("check", "cub200", "--root", tmp_path, "--quiet")[1]


def test_check_takes_the_options_of_a_dataset(tmp_path: Path) -> None:
    code, text = run("check", "glyphs", "--set", "samples_per_class=2", "--quiet")
    assert code == 0 and "692 images of 346 classes" in text
    with pytest.raises(UsageError, match="--set needs key=value"):
        run("check", "glyphs", "--set", "samples_per_class", "--quiet")


def test_fetch_shows_the_terms_first_and_asks_for_consent(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["fetch", "cub200", "--root", str(tmp_path)])
    assert "license:   Non-commercial" in result.stdout
    assert isinstance(result.exception, UsageError) and "--yes" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_fetch_of_a_set_without_a_download_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="signed agreement"):
        run("fetch", "inshop", "--root", tmp_path, "--yes", "--quiet")
