"""Images, and a model to index them with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.retrieval.embedders.conftest import SHAPE, trained

from levelfield.retrieval.embedders import Preprocessing, write_model


def draw(seed: int) -> Image.Image:
    """Return a unique image: a few random blocks of color."""
    blocks = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return Image.fromarray(blocks.repeat(8, axis=0).repeat(8, axis=1))


def fill(folder: Path, count: int, *, classes: int = 3, first: int = 0) -> Path:
    """Write ``count`` images to ``classes`` subfolders."""
    for number in range(first, first + count):
        subfolder = folder / f"class{number % classes}"
        subfolder.mkdir(parents=True, exist_ok=True)
        draw(number).save(subfolder / f"{number:04d}.png")
    return folder


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Image folder with 30 images in 3 classes."""
    return fill(tmp_path / "images", 30)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Model directory."""
    return make_model(tmp_path / "model")


def make_model(directory: Path, seed: int = 0) -> Path:
    write_model(
        directory,
        trained(seed),
        architecture=SHAPE,
        preprocessing=Preprocessing(size=(32, 32)),
        name=f"model {seed}",
    )
    return directory
