"""The store over real files, good and bad."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from levelfield import data
from levelfield.data import store
from levelfield.data.transforms._resample import resize_shorter


@pytest.fixture
def root(tmp_path):
    """Two classes of files in every mode that a crawl brings home, two of them broken."""
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / "set" / name).mkdir(parents=True)
    color = Image.fromarray(rng.integers(0, 256, (40, 60, 3), dtype=np.uint8))
    folder = tmp_path / "set" / "a"
    color.save(folder / "1.jpg")
    color.convert("CMYK").save(folder / "2.jpg")
    color.convert("P").save(folder / "3.png")
    color.convert("L").save(folder / "4.png")
    Image.fromarray(rng.integers(0, 65536, (30, 20), dtype=np.uint16)).save(folder / "5.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    color.save(folder / "6.jpg", exif=turned)
    folder = tmp_path / "set" / "b"
    color.save(folder / "1.jpg")
    (folder / "2.jpg").write_bytes((folder / "1.jpg").read_bytes()[:300])
    (folder / "3.jpg").touch()
    return tmp_path / "set"


def test_broken_files_are_refused_by_name(root, tmp_path):
    dataset = data.load("folder", root=str(root))
    with pytest.raises(store.UnreadableImagesError, match="2 of 9 images") as refused:
        store.prepare(dataset, tmp_path)
    (_, truncated), (_, empty) = refused.value.unreadable
    assert "2.jpg" in truncated
    assert "truncated" in truncated
    assert "0 bytes" in empty


def test_files_of_every_mode_are_stored_as_they_are_read(root, tmp_path):
    dataset = data.load("folder", root=str(root))
    store.prepare(dataset, tmp_path, resize=32, unreadable="skip")
    kept = store.load_from_store(dataset, tmp_path, resize=32)
    assert kept is not None and len(kept) == 7
    assert kept.images.read(5).shape == (3, 48, 32), "the EXIF orientation was applied"
    for row in range(7):
        assert torch.equal(kept.images.read(row), resize_shorter(dataset.images.read(row), 32))
