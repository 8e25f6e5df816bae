"""Contact sheet: a few images of a few classes in one PNG."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from levelfield.core.errors import RunError
from levelfield.core.seeds import numpy_generator
from levelfield.data._dataset import Dataset, Rows
from levelfield.data.datasets._glyph_render import font_directory

_SIDE, _GAP, _TITLE = 96, 4, 16
_DEVELOPMENT, _TEST = (235, 244, 255), (255, 240, 228)  # light blue and light orange


def write_contact_sheet(
    dataset: Dataset, file: Path, *, test: Rows, classes: int = 16, images: int = 8, seed: int = 0
) -> None:
    """Write a PNG with ``images`` of each of ``classes`` classes, evenly spread over the class order.

    Each class has one row of images below its name. The background is light orange for classes with test
    images, else light blue. An unreadable image is shown as a crossed box.

    Args:
        dataset: Dataset to show.
        file: PNG file to write.
        test: Test rows of the split.
        classes: Number of classes.
        images: Number of images per class.
        seed: Seed of the choice of images.
    """
    present = np.unique(dataset.labels)
    chosen = present[np.unique(np.linspace(0, len(present) - 1, classes).astype(int))]
    step = _SIDE + _GAP
    page = Image.new("RGB", (images * step + _GAP, len(chosen) * (step + _TITLE) + _GAP), "white")
    draw = ImageDraw.Draw(page)
    generator = numpy_generator("contact sheet", seed)
    font = ImageFont.truetype(str(font_directory() / "DejaVuSans.ttf"), 12)  # has most scripts
    tested = set(dataset.labels[test].tolist())
    for line, label in enumerate(chosen.tolist()):
        rows = np.flatnonzero(dataset.labels == label)
        top = line * (step + _TITLE)
        draw.rectangle(
            (0, top, page.width, top + step + _TITLE - 1), fill=_TEST if label in tested else _DEVELOPMENT
        )
        title = f"{dataset.class_names[label]} ({len(rows)} images)"
        draw.text((_GAP, top + 1), title, fill="black", font=font)
        picked = np.sort(generator.permutation(rows)[:images])
        for column, row in enumerate(picked.tolist()):
            page.paste(_thumbnail(dataset, row), (_GAP + column * step, top + _TITLE))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        page.save(file, format="PNG")
    except OSError as error:
        raise RunError(
            f"cannot write the contact sheet {file}: {error.strerror or error}; give another path"
        ) from error


def _thumbnail(dataset: Dataset, row: int) -> Image.Image:
    box = Image.new("RGB", (_SIDE, _SIDE), "white")
    try:
        pixels = dataset.images.read(row).permute(1, 2, 0).squeeze(-1).numpy()
    except RunError:
        draw = ImageDraw.Draw(box)
        draw.line((0, 0, _SIDE, _SIDE), fill="red", width=3)
        draw.line((0, _SIDE, _SIDE, 0), fill="red", width=3)
        return box
    image = Image.fromarray(pixels).convert("RGB")
    zoom = _SIDE / max(image.size)
    size = (max(1, round(image.width * zoom)), max(1, round(image.height * zoom)))
    image = image.resize(size, Image.Resampling.BOX if zoom < 1 else Image.Resampling.NEAREST)
    box.paste(image, ((_SIDE - size[0]) // 2, (_SIDE - size[1]) // 2))
    return box
