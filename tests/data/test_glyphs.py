"""Glyphs: distinguishable classes, pixels that depend only on the options, a safe cache."""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter

from levelfield.core.errors import RunError, UsageError
from levelfield.data import Dataset, load
from levelfield.data.datasets import _glyph_render
from levelfield.data.datasets._glyph_classes import ALPHABETS

CHARACTERS = [character for alphabet in ALPHABETS for character in alphabet.characters]
# Letters that different scripts, or the two cases of one, write alike: at most one of each may be a class.
CONFUSABLE = """
    AΑА BΒВ EΕЕ ZΖz HΗН IΙІlӀון KΚКkκк MΜМм NΝ OΟОoοо0Օօ PΡРpρр TΤТ XΧХxхχ YΥҮ CСcсϹ SЅsѕՏ JЈյ yуУ aа eе iі jј
    vVνѴ wW ΓГгᒥ Δᐃ ΦФфɸ ΠПп 3Зз 6б hһհ nոп uսՍUυ gցɡ9 LԼւ ωѡѠ εɛƐ θѲѳΘɵ ƩΣ ÞϷ ÆӔ ƏӘǝə БƂ ЬƄ ʙв ʜн اأإآ חה
""".split()  # noqa: SIM905 - reads better than a list of quoted strings


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LEVELFIELD_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def glyph_dataset() -> Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEVELFIELD_CACHE", "/dev/null/nowhere")
        return load("glyphs")


@pytest.mark.slow
def test_there_are_enough_classes_samples_and_alphabets(glyph_dataset: Dataset) -> None:
    assert glyph_dataset.num_classes >= 300
    assert np.bincount(glyph_dataset.labels).min() >= 12
    assert len({name.split()[0] for name in glyph_dataset.class_names}) >= 5
    image = glyph_dataset.images.read(7)
    assert image.shape == (1, 32, 32) and image.dtype == torch.uint8


def test_the_two_halves_share_no_alphabet(glyph_dataset: Dataset) -> None:
    alphabets = [name.split()[0] for name in glyph_dataset.class_names]
    half = len(alphabets) // 2
    assert set(alphabets[:half]).isdisjoint(alphabets[half:])


def test_no_character_is_listed_twice_or_is_a_composite() -> None:
    assert len(set(CHARACTERS)) == len(CHARACTERS)
    composed = {character for character in CHARACTERS if unicodedata.decomposition(character)}
    assert composed <= {"آ", "ئ"}  # their plain bodies are no classes


def test_scripts_that_write_a_letter_alike_have_one_class_for_it() -> None:
    for group in CONFUSABLE:
        assert len(set(group) & set(CHARACTERS)) <= 1, group


@pytest.mark.slow
def test_no_two_classes_look_near_identical_in_any_two_faces() -> None:
    vectors, owners = [], []
    for owner, character in enumerate(CHARACTERS):
        for face in _glyph_render.faces_with_glyph(character):
            image = Image.fromarray(_glyph_render.render_clean(face, character))
            vector = np.asarray(image.filter(ImageFilter.GaussianBlur(0.6)), dtype=np.float32).ravel()
            vector = vector - vector.mean()
            vectors.append(vector / np.linalg.norm(vector))
            owners.append(owner)
    owner_of = np.array(owners)
    alike = np.stack(vectors) @ np.stack(vectors).T
    alike[owner_of[:, None] == owner_of] = 0
    row, column = np.unravel_index(alike.argmax(), alike.shape)
    pair = CHARACTERS[owner_of[row]] + CHARACTERS[owner_of[column]]
    assert alike.max() < 0.96, f"{pair} correlate by {alike.max():.3f}"


@pytest.mark.slow
def test_every_face_used_has_the_character_and_draws_something_else_than_its_missing_box() -> None:
    for character in CHARACTERS:
        for face in _glyph_render.faces_with_glyph(character):
            drawn = _glyph_render.render_clean(face, character)
            assert drawn.max() > 128
            missing = _glyph_render._outline(face, "\U0010fffe")
            if missing is not None:
                box = np.asarray(_glyph_render._warp(missing, 32, np.eye(2), (0.0, 0.0)))
                assert not np.array_equal(drawn, box), (face.name, character)


def test_faces_without_the_character_are_not_used() -> None:
    names = {face.name for face in _glyph_render.faces_with_glyph("א")}
    assert names and not any(name.startswith(("cm", "STIX", "DejaVuSerif")) for name in names)
    with pytest.raises(RunError, match=r"U\+4E2D.*reinstall matplotlib"):
        _glyph_render.faces_with_glyph("中")


def test_same_options_same_pixels_and_another_seed_other_pixels() -> None:
    first, again = load("glyphs", samples_per_class=2), load("glyphs", samples_per_class=2)
    other = load("glyphs", samples_per_class=2, seed=1)
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert torch.equal(first.images.read(5), again.images.read(5))


@pytest.mark.slow
def test_the_cache_is_used_and_a_damaged_one_is_drawn_anew(cache: Path) -> None:
    first = load("glyphs", samples_per_class=2)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    for damaged in (
        b"",
        whole[: len(whole) // 2],
        whole[:2000] + b"\xff" + whole[2001:],
        b"PK\x03\x04 no archive",
    ):
        file.write_bytes(damaged)
        assert load("glyphs", samples_per_class=2).fingerprint == first.fingerprint
        assert file.read_bytes() == whole
    assert [entry.name for entry in cache.iterdir()] == [file.name]


def test_the_cache_is_read_when_it_is_whole(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load("glyphs", samples_per_class=2)
    monkeypatch.setattr(_glyph_render, "render_sample", None)
    assert load("glyphs", samples_per_class=2).fingerprint == first.fingerprint


def test_other_fonts_have_another_cache_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from levelfield.data.datasets.glyphs import _key

    before = _key(12, 32, 0)
    fonts = tmp_path / "fonts"
    shutil.copytree(_glyph_render.font_directory(), fonts)
    monkeypatch.setattr(_glyph_render, "font_directory", lambda: fonts)
    assert _key(12, 32, 0) == before
    with (fonts / "DejaVuSans.ttf").open("ab") as stream:
        stream.write(b"another edition")
    assert _key(12, 32, 0) != before


def test_an_unwritable_cache_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    monkeypatch.setenv("LEVELFIELD_CACHE", str(blocker / "below"))
    assert len(load("glyphs", samples_per_class=2)) == 2 * len(CHARACTERS)


def test_a_selection_cannot_reach_other_rows(glyph_dataset: Dataset) -> None:
    part = glyph_dataset.select(np.array([40, 3]))
    assert torch.equal(part.images.read(0), glyph_dataset.images.read(40))
    assert len(part.images) == 2
    with pytest.raises(IndexError):
        part.images.read(2)


@pytest.mark.parametrize(
    "options", [{"samples_per_class": 1}, {"samples_per_class": 10**30}, {"size": 8}, {"size": 1000}]
)
def test_bad_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=r'"glyphs"[: ]'):
        load("glyphs", **options)
