"""Pictures and a model to index them with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from embedders.conftest import SHAPE, trained
from levelfield.embedders import Preprocessing, write_model


def draw(seed: int) -> Image.Image:
    """A picture unlike all others: a few random blocks of colour."""
    blocks = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return Image.fromarray(blocks.repeat(8, axis=0).repeat(8, axis=1))


def fill(folder: Path, count: int, *, classes: int = 3, first: int = 0) -> Path:
    """``count`` pictures in ``classes`` folders."""
    for number in range(first, first + count):
        home = folder / f"class{number % classes}"
        home.mkdir(parents=True, exist_ok=True)
        draw(number).save(home / f"{number:04d}.png")
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder of 30 pictures in 3 classes."""
    return fill(tmp_path / "pictures", 30)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder."""
    return make_model(tmp_path / "model")


def make_model(folder: Path, seed: int = 0) -> Path:
    write_model(
        folder,
        trained(seed),  # type: ignore[arg-type]
        architecture=SHAPE,
        preprocessing=Preprocessing(size=(32, 32)),
        name=f"model {seed}",
    )
    return folder
