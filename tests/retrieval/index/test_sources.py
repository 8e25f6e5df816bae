"""Folders are read whole: links to folders are followed once, and circles end."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from levelfield.retrieval.index import images_from_folder


def image_file(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(file)
    return file


def test_links_to_folders_are_followed_and_circles_end(tmp_path: Path) -> None:
    top, elsewhere = tmp_path / "photos", tmp_path / "elsewhere"
    image_file(top / "cats" / "a.png")
    image_file(elsewhere / "deep" / "b.png")
    (top / "dogs").symlink_to(elsewhere)
    (elsewhere / "deep" / "up").symlink_to(top)
    (top / "again").symlink_to(top / "cats")
    found = [(Path(each.name).relative_to(top).as_posix(), each.label) for each in images_from_folder(top)]
    assert found == [("cats/a.png", "cats"), ("dogs/deep/b.png", "dogs")]


def test_a_link_that_leads_nowhere_is_skipped(tmp_path: Path) -> None:
    image_file(tmp_path / "a.png")
    (tmp_path / "gone").symlink_to(tmp_path / "missing")
    assert [Path(each.name).name for each in images_from_folder(tmp_path)] == ["a.png"]
