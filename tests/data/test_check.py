"""Dataset check: counts, unreadable files, duplicates across the train/test border, a contact sheet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from levelfield.core.errors import RunError
from levelfield.data import Dataset, load
from levelfield.data._duplicates import compute_signature, find_near_duplicates, group_exact_duplicates
from levelfield.data.check import check
from levelfield.data.contact_sheet import write_contact_sheet


def photo(seed: int, side: int = 64) -> Image.Image:
    """Return a smooth random image; images of different seeds differ as much as photographs."""
    blocks = np.random.default_rng(seed).integers(0, 255, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize((side, side), Image.Resampling.BICUBIC)


def made(folder: Path) -> Dataset:
    """Four classes of three images; the last two are the test classes."""
    for k in range(12):
        file = folder / f"class{k // 3}" / f"{k}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        photo(k).save(file)
    return load("folder", root=str(folder), seed=None)


TEST = np.arange(6, 12)


def test_a_sound_set_has_nothing_but_counts(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    found = check(made(tmp_path), test=TEST, progress=lambda *at: steps.append(at))
    assert found.passed and steps[-1] == (12, 12)
    assert (found.images, found.classes, found.smallest, found.median, found.largest) == (12, 4, 3, 3.0, 3)
    assert (found.single, found.copies, found.conflicts) == ((), 0, ())


def test_unreadable_files_are_listed_with_the_reason(tmp_path: Path) -> None:
    dataset = made(tmp_path)
    (tmp_path / "class0" / "1.png").write_bytes(b"")
    whole = (tmp_path / "class3" / "10.png").read_bytes()
    (tmp_path / "class3" / "10.png").write_bytes(whole[: len(whole) // 2])
    found = check(dataset, test=TEST)
    assert not found.passed and len(found.unreadable) == 2
    assert "0 bytes" in found.unreadable[0][1] and "truncated" in found.unreadable[1][1]


def test_the_same_image_on_both_sides_is_a_leak_whatever_its_file_format(tmp_path: Path) -> None:
    made(tmp_path)
    photo(0).save(tmp_path / "class3" / "copy.bmp")
    found = check(load("folder", root=str(tmp_path), seed=None), test=np.arange(6, 13))
    assert found.exact_leaks == ((0, 12),) and not found.near_leaks
    assert found.conflicts == ((0, 12),) and found.copies == 1


def test_copies_within_a_side_and_class_are_no_leak(tmp_path: Path) -> None:
    made(tmp_path)
    photo(0).save(tmp_path / "class0" / "copy.png")
    found = check(load("folder", root=str(tmp_path), seed=None), test=np.arange(7, 13))
    assert found.passed and found.copies == 1 and found.conflicts == ()


@pytest.mark.parametrize("change", ["smaller", "jpeg", "brighter", "crop", "gray"])
def test_a_slightly_changed_image_is_a_near_duplicate(change: str, tmp_path: Path) -> None:
    original = photo(0, side=200)
    if change == "smaller":
        altered = original.resize((120, 120))
    elif change == "brighter":
        altered = ImageEnhance.Brightness(original).enhance(1.15)
    elif change == "crop":
        altered = original.crop((2, 2, 198, 198))
    elif change == "gray":
        altered = original.convert("L").convert("RGB")
    else:
        original.save(tmp_path / "x.jpg", quality=40)
        altered = Image.open(tmp_path / "x.jpg")
    prints = [compute_signature(np.asarray(image)) for image in (original, altered, photo(1))]
    assert find_near_duplicates(prints, np.array([0]), np.array([1, 2])) == [(0, 1)]
    assert group_exact_duplicates(prints) == []


def test_unlike_and_plain_images_are_not_called_near(tmp_path: Path) -> None:
    others = [np.asarray(photo(k)) for k in range(60)]
    plain = [np.full((64, 64, 3), shade, dtype=np.uint8) for shade in (10, 200)]
    prints = [compute_signature(image) for image in [*others, *plain]]
    half = len(prints) // 2
    assert find_near_duplicates(prints, np.arange(half), np.arange(half, len(prints))) == []
    assert find_near_duplicates(prints, np.arange(0), np.arange(3)) == []


def test_grayscale_sets_can_be_checked() -> None:
    dataset = load("glyphs", samples_per_class=2).select(np.arange(40))
    assert check(dataset, test=np.arange(20, 40)).unreadable == ()


def test_the_contact_sheet_shows_classes_of_both_sides_and_survives_bad_files(tmp_path: Path) -> None:
    dataset = made(tmp_path / "set")
    (tmp_path / "set" / "class0" / "1.png").write_bytes(b"")
    write_contact_sheet(dataset, tmp_path / "out" / "sheet.png", test=TEST, images=3)
    sheet = Image.open(tmp_path / "out" / "sheet.png")
    assert sheet.size == (3 * 100 + 4, 4 * 116 + 4)
    corners = [sheet.getpixel((sheet.width - 1, line * 116 + 5)) for line in range(4)]
    assert corners[0] == corners[1] != corners[2] == corners[3]
    with pytest.raises(RunError, match="cannot write the contact sheet"):
        write_contact_sheet(dataset, tmp_path / "set" / "class1" / "3.png" / "sheet.png", test=TEST)
